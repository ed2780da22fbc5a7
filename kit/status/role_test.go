package status

import (
	"testing"

	"orrery/kit/manager"
)

func TestTheRoleTellsOfFurtherLeases(t *testing.T) {
	first := manager.Leadership{Election: true, Leading: true, Lease: "kube-system/a", Holder: "me"}
	for want, further := range map[string][]manager.Leadership{
		"holds kube-system/a as me":                                           nil,
		"holds kube-system/a as me; holds kube-system/b":                      {{Leading: true, Lease: "kube-system/b", Holder: "me"}},
		"holds kube-system/a as me; waits for kube-system/b":                  {{Lease: "kube-system/b"}},
		"holds kube-system/a as me; waits for kube-system/b, which you holds": {{Lease: "kube-system/b", Holder: "you"}},
	} {
		l := first
		l.Further = further
		if _, got := role(Overview{Leadership: l}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
