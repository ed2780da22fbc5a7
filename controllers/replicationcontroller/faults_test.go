package replicationcontroller

import (
	"testing"

	"orrery/kit/kittest"
)

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, there is no pod too many or too few.
func TestFaultsAtEachWrite(t *testing.T) {
	kittest.InjectFaults(t, kittest.FaultTest{
		Run: []any{Descriptor()}, World: kittest.Kubelet(nil),
		Given: func(t *testing.T, api *kittest.API) { api.Create(t, newController("web", 3)) },
		Change: func(t *testing.T, api *kittest.API) {
			rc := get(t, api, "web")
			rc.Spec.Replicas = new(int32(1))
			api.Update(t, rc)
		},
	})
}
