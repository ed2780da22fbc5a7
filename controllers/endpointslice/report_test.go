package endpointslice

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
)

func TestAConflictHidesNoOtherFailure(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "endpointslices"}, "web-1", errors.New("modified"))
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no error":               {nil, ""},
		"conflicts":              {errors.Join(conflict, conflict), ""},
		"a conflict and another": {errors.Join(conflict, errors.New("node not found")), "node not found"},
		"another and a conflict": {errors.Join(errors.New("node not found"), conflict), "node not found"},
	} {
		events := record.NewFakeRecorder(1)
		(&reconciler{recorder: events}).report(service("web"), c.err)
		got := ""
		if len(events.Events) > 0 {
			got = <-events.Events
		}
		if (got == "") != (c.want == "") || !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: event %q, want one that ends with %q", name, got, c.want)
		}
	}
}
