package cache

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/client"
)

// An object that comes again in the same version is no change, unless it has no version: then its server, a handmade
// extension API, does not say.
func TestOnlyVersionsTellThatNothingHasChanged(t *testing.T) {
	object := func(version string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: version}}
	}
	same := object("1")
	for name, tc := range map[string]struct {
		old, new *metav1.PartialObjectMetadata
		told     bool
	}{
		"changed":                 {object("1"), object("2"), true},
		"listed again":            {object("1"), object("1"), false},
		"resync":                  {same, same, true},
		"changed without version": {object(""), object(""), true},
		"loses its version":       {object("1"), object(""), true},
	} {
		told := false
		deliver(func(_, _ client.Object, _ bool) { told = true }).OnUpdate(tc.old, tc.new)
		if told != tc.told {
			t.Errorf("%s: told %t, want %t", name, told, tc.told)
		}
	}
}
