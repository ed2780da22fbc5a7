package replicaset

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, no set gets a pod too many or too few.
func TestFaultsAtEachWrite(t *testing.T) {
	for name, p := range map[string]kittest.FaultTest{
		"filling": {Given: func(t *testing.T, api *kittest.API) { api.Create(t, newSet("web", 4)) }},
		"shrinking": {
			Given:  func(t *testing.T, api *kittest.API) { api.Create(t, newSet("web", 4)) },
			Change: func(t *testing.T, api *kittest.API) { scale(t, api, "web", 1) },
		},
		"adopting and releasing": {Given: func(t *testing.T, api *kittest.API) {
			set := newSet("web", 2)
			api.Create(t, set)
			api.Create(t, orphan("old", map[string]string{"app": "web"}))
			other := orphan("other", map[string]string{"app": "else"})
			other.OwnerReferences = append(other.OwnerReferences, *metav1.NewControllerRef(set, setKind))
			api.Create(t, other)
		}},
	} {
		p.Run, p.World = []any{Descriptor()}, kittest.Kubelet(nil)
		t.Run(name, func(t *testing.T) { kittest.InjectFaults(t, p) })
	}
}
