package tainteviction

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orrery/kit/kittest"
)

// TestCutAnywhere: whatever happens to the process at whichever write, those pods are evicted that have to go, each marked
// before it is deleted, and no other.
func TestCutAnywhere(t *testing.T) {
	kittest.EveryCut(t, kittest.Play{
		Run: []any{Descriptor()}, Rest: 2 * time.Minute,
		Given: func(t *testing.T, api *kittest.API) {
			api.Create(t, node("n"))
			for _, p := range []*corev1.Pod{pod("a", "n"), pod("b", "n"), pod("soon", "n", tolerates("a", 20)), pod("away", "m")} {
				api.Create(t, p)
			}
		},
		Change: func(t *testing.T, api *kittest.API) { retaint(t, api, "n", taint("a")) },
		Always: func(t *testing.T, api *kittest.API) string {
			for _, p := range kittest.List[corev1.Pod](t, api, "") {
				if p.DeletionTimestamp != nil && len(p.Status.Conditions) == 0 {
					return p.Name + " is deleted and not marked"
				}
			}
			return ""
		},
	})
}
