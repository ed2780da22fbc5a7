package client

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestKindsThatAreAskedForAreForgotten(t *testing.T) {
	m := &Mapper{asked: map[schema.GroupKind]time.Time{}}
	now := time.Now()
	for i := range 10 * askedKinds {
		m.note(schema.GroupKind{Group: "example.com", Kind: fmt.Sprint("Kind", i)}, now.Add(time.Duration(i)*askAgain/100))
	}
	if n := len(m.asked); n > askedKinds {
		t.Errorf("%d kinds are remembered", n)
	}
	for i := range 2 * askedKinds { // none may be asked for again yet
		m.note(schema.GroupKind{Kind: fmt.Sprint("Kind", i)}, now.Add(time.Hour))
	}
	if n := len(m.asked); n != 2*askedKinds {
		t.Errorf("%d kinds of this second are remembered, want all %d", n, 2*askedKinds)
	}
}
