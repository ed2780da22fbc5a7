package disruption

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, budgets end up with the right numbers and never allow
// too many disruptions.
func TestFaultsAtEachWrite(t *testing.T) {
	kittest.InjectFaults(t, kittest.FaultTest{
		Run: []any{Descriptor()}, Rest: 4 * time.Minute,
		Given: func(t *testing.T, api *kittest.API) {
			populate(t, api, replicaSet("rs", 4), 4)
			b := budget("b", atLeast("3"))
			b.Status.DisruptedPods = map[string]metav1.Time{"rs-0": metav1.Now(), "gone": metav1.Now()}
			api.Create(t, b)
			api.Create(t, marking("old", "EvictionByEvictionAPI", time.Now().Add(-time.Hour)))
			api.Create(t, marking("fresh", "EvictionByEvictionAPI", time.Now()))
		},
	})
}
