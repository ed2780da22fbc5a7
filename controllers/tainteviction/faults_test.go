package tainteviction

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orrery/kit/kittest"
)

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, the right pods are evicted, and no others, and each
// is marked before it is deleted.
func TestFaultsAtEachWrite(t *testing.T) {
	kittest.InjectFaults(t, kittest.FaultTest{
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
