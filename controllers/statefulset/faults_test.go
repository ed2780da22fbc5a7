package statefulset

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"orrery/kit/kittest"
)

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, a set ends as if it had not been, and no pod or claim
// is made or deleted once more.
func TestFaultsAtEachWrite(t *testing.T) {
	db := func(opts ...setOption) func(*testing.T, *kittest.API) {
		return func(t *testing.T, api *kittest.API) { api.Create(t, newSet("db", 2, opts...)) }
	}
	to := func(opts ...setOption) func(*testing.T, *kittest.API) {
		return func(t *testing.T, api *kittest.API) {
			set := newSet("db", 0)
			api.Get(t, set)
			for _, o := range opts {
				o(set)
			}
			set.Generation++
			api.Update(t, set)
		}
	}
	history := func(s *appsv1.StatefulSet) { s.Spec.RevisionHistoryLimit = new(int32(0)) }
	const gone = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	for name, p := range map[string]kittest.FaultTest{
		"filling":             {Given: db(storing("data"))},
		"filling at once":     {Given: db(storing("data"), parallel)},
		"rolling":             {Given: db(history), Change: to(image("img:2"))},
		"shrinking":           {Given: db(storing("data"), retention(gone, gone)), Change: to(replicas(1))},
		"changing the policy": {Given: db(storing("data")), Change: to(retention(gone, gone))},
	} {
		p.Run, p.World = []any{Descriptor()}, kittest.Kubelet(nil)
		t.Run(name, func(t *testing.T) { kittest.InjectFaults(t, p) })
	}
}
