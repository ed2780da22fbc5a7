package podgc

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orrery/kit/kittest"
)

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, the same pods are removed, and no more finished
// pods than exceed the threshold.
func TestFaultsAtEachWrite(t *testing.T) {
	kittest.InjectFaults(t, kittest.FaultTest{
		Run: []any{withThreshold(t, 2)}, Rest: 3 * time.Minute,
		Given: func(t *testing.T, api *kittest.API) {
			api.Create(t, node("n", corev1.ConditionTrue))
			api.Create(t, node("out", corev1.ConditionFalse, corev1.TaintNodeOutOfService))
			for _, p := range []*corev1.Pod{
				pod("ended-1", "n", corev1.PodSucceeded, createdAt(100)), pod("ended-2", "n", corev1.PodFailed, createdAt(200)),
				pod("ended-3", "n", corev1.PodFailed, createdAt(300)), pod("ended-4", "n", corev1.PodSucceeded, createdAt(400)),
				pod("running", "n", corev1.PodRunning), pod("orphan", "gone", corev1.PodRunning),
				pod("out", "out", corev1.PodRunning, deleted), pod("never", "", corev1.PodPending, deleted),
			} {
				api.Create(t, p)
			}
		},
	})
}
