package nodepool

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"orrery/api/nodes/v1alpha1"
	"orrery/controllers/internal/slim"
	"orrery/kit/kittest"
)

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, nodes get what their pools ask for, and back what
// they had.
func TestFaultsAtEachWrite(t *testing.T) {
	given := func(t *testing.T, api *kittest.API) {
		api.AddTypes(v1alpha1.AddToScheme, "NodePool")
		api.Slim(slim.Kinds())
		for _, name := range []string{"a", "b"} {
			n := newNode(name, "pool-p")
			n.Labels["tier"] = "their own"
			api.Create(t, n)
		}
		api.Create(t, newPool("p", label("tier", "gold"), taint("only", "p", "NoSchedule")))
	}
	lab := func(t *testing.T, api *kittest.API) *lab { return &lab{API: api, t: t} }
	for name, p := range map[string]kittest.FaultTest{
		"joining": {},
		"changing": {Change: func(t *testing.T, api *kittest.API) {
			lab(t, api).changePool("p", func(s *v1alpha1.NodePoolSpec) {
				s.Taints = nil
				label("tier", "lead")(s)
			})
		}},
		"leaving": {Change: func(t *testing.T, api *kittest.API) {
			lab(t, api).changeNode("a", func(n *corev1.Node) { delete(n.Labels, "pool-p") })
		}},
		"deleting": {Change: func(t *testing.T, api *kittest.API) { api.Delete(t, lab(t, api).pool("p")) }},
	} {
		p.Run, p.Given = []any{Descriptor()}, given
		t.Run(name, func(t *testing.T) { kittest.InjectFaults(t, p) })
	}
}
