package daemonset

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"orrery/kit/kittest"
)

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, each node ends up with one pod, created once.
func TestFaultsAtEachWrite(t *testing.T) {
	on := func(nodes int, opts ...setOption) func(*testing.T, *kittest.API) {
		return func(t *testing.T, api *kittest.API) {
			for _, n := range newNodes(nodes) {
				api.Create(t, n)
			}
			api.Create(t, newSet("agent", opts...))
		}
	}
	to := func(opts ...setOption) func(*testing.T, *kittest.API) {
		return func(t *testing.T, api *kittest.API) { change(t, api, "agent", opts...) }
	}
	history := func(s *appsv1.DaemonSet) { s.Spec.RevisionHistoryLimit = new(int32(0)) }
	for name, p := range map[string]kittest.FaultTest{
		"filling":            {Given: on(3)},
		"rolling":            {Given: on(3, history), Change: to(image("img:2"))},
		"rolling with surge": {Given: on(2, rolling("", "1")), Change: to(image("img:2"))},
		"leaving a node": {Given: on(3), Change: func(t *testing.T, api *kittest.API) {
			changeNode(t, api, "n01", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{taint("away", corev1.TaintEffectNoExecute)} })
		}},
		"a pod that failed": {Given: on(2), Change: func(t *testing.T, api *kittest.API) {
			p := pods(t, api)[0]
			p.Status.Phase = corev1.PodFailed
			api.Update(t, p)
		}},
	} {
		p.Run, p.World = []any{Descriptor()}, kittest.Kubelet(nil)
		t.Run(name, func(t *testing.T) { kittest.InjectFaults(t, p) })
	}
}
