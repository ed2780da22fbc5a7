package deployment

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"orrery/kit/kittest"
)

// obey gives every ReplicaSet its desired number of pods. Those of bad templates never become available.
func obey(t *testing.T, api *kittest.API) {
	t.Helper()
	for _, rs := range kittest.List[appsv1.ReplicaSet](t, api, "") {
		n := *rs.Spec.Replicas
		want := appsv1.ReplicaSetStatus{Replicas: n, FullyLabeledReplicas: n, ObservedGeneration: rs.Generation}
		if rs.Spec.Template.Spec.NodeSelector == nil {
			want.ReadyReplicas, want.AvailableReplicas = n, n
		}
		if rs.Status.Replicas != n || rs.Status.ObservedGeneration != rs.Generation {
			rs.Status = want
			api.Update(t, rs)
		}
	}
}

// within reports when a Deployment of 3 has more than 4 pods or fewer than 3.
func within(t *testing.T, api *kittest.API) string {
	t.Helper()
	var wanted, available int32
	all := kittest.List[appsv1.ReplicaSet](t, api, "")
	for _, rs := range all {
		wanted += *rs.Spec.Replicas
		available += min(rs.Status.AvailableReplicas, *rs.Spec.Replicas)
	}
	if wanted > 4 || len(all) > 1 && available < 3 {
		return "out of bounds: " + sizes(t, api)
	}
	return ""
}

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, a rollout ends as if it had not been.
func TestFaultsAtEachWrite(t *testing.T) {
	web := func(opts ...deploymentOption) func(*testing.T, *kittest.API) {
		return func(t *testing.T, api *kittest.API) { api.Create(t, newDeployment("web", 3, opts...)) }
	}
	to := func(opts ...deploymentOption) func(*testing.T, *kittest.API) {
		return func(t *testing.T, api *kittest.API) { change(t, api, "web", opts...) }
	}
	stuck := func(t *testing.T, api *kittest.API) { api.Create(t, newDeployment("web", 10, slack("3", "2"))) }
	history := func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = new(int32(0)) }
	for name, p := range map[string]kittest.FaultTest{
		"first rollout": {Given: web()},
		"rolling":       {Given: web(history), Change: to(image("img:2")), Always: within},
		"recreating":    {Given: web(recreated), Change: to(image("img:2"))},
		"scaling":       {Given: web(), Change: to(replicas(5))},
		// kubernetes/kubernetes#44734: the sizes of 8 and 5 keep their proportion, whatever was resized before a failure.
		"scaling a stuck rollout up":   {Given: stuck, Before: to(image("img:2"), bad), Change: to(replicas(17))},
		"scaling a stuck rollout down": {Given: stuck, Before: to(image("img:2"), bad), Change: to(replicas(4))},
		"back to a former":             {Given: web(), Before: to(image("img:2")), Change: to(image("img:1"), replicas(2))},
	} {
		p.Run, p.World = []any{Descriptor()}, obey
		t.Run(name, func(t *testing.T) { kittest.InjectFaults(t, p) })
	}
}
