package tainteviction

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-base/featuregate"

	"orrery/controllers/internal/index"
	"orrery/kit"
)

const (
	// Name of the controller.
	Name = "taint-eviction-controller"

	nodeWorkers = 4
	// podWorkers is how many pods are deleted at once.
	podWorkers = 50
)

// Descriptor describes the controller to the daemon.
func Descriptor() kit.Descriptor {
	core := []string{""}
	return kit.Descriptor{
		Name: Name, ServiceAccount: "node-controller", EventSource: Name,
		Summary:      "deletes pods that do not tolerate a NoExecute taint of their node",
		FeatureGates: []featuregate.Feature{"SeparateTaintEvictionController"},
		Init:         initialize,
		RBAC: []rbacv1.PolicyRule{
			{APIGroups: core, Resources: []string{"pods"}, Verbs: []string{"list", "watch", "delete"}},
			{APIGroups: core, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: core, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
			{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
		},
	}
}

func initialize(cc kit.ControllerContext) (bool, error) {
	r := &reconciler{
		pods: kit.Store(cc, index.PodsByNode()), nodes: kit.Store[corev1.Node](cc),
		client: cc.Client, live: cc.Live, recorder: cc.Recorder, metrics: newMetrics(), pending: newPendingSet(),
		compare: cc.Gates != nil && cc.Gates.Enabled(featuregate.Feature("TaintTolerationComparisonOperators")),
		wake:    kit.NewTrigger[kit.Key](),
	}
	if cc.Register != nil {
		cc.Register(r.metrics.deletions, r.metrics.latency)
	}
	err := kit.NewController(cc, kit.Func[kit.Key](r.reconcileNode)).Loop("nodes").
		Watch(kit.For(r.nodeChanged)).Queue("noexec_taint_node").Workers(nodeWorkers).Complete()
	if err != nil {
		return false, err
	}
	return true, kit.NewController(cc, r).
		Watch(kit.WatchChanges(r.podsToCheck), r.wake.Source()).
		Queue("noexec_taint_pod").Workers(podWorkers).Complete()
}

// noExecute returns the NoExecute taints of a node.
func noExecute(node *corev1.Node) []corev1.Taint {
	if node == nil || !slices.ContainsFunc(node.Spec.Taints, evicts) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return !evicts(t) })
}

func evicts(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }

// nodeChanged accepts a node whose NoExecute taints have changed. The deletion of a node cancels nothing: its pods are
// deleted too, or evicted as decided before. But if a node of the same name is created, pods may be waiting for an eviction
// because of taints that this node does not have.
func (r *reconciler) nodeChanged(old, new *corev1.Node) bool {
	switch {
	case new == nil:
		return false
	case old == nil && r.pending.any():
		return true
	}
	return !slices.EqualFunc(noExecute(old), noExecute(new), func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value })
}

// podsToCheck returns the key of a pod if a change of it may start or cancel its eviction. It records pods that have just
// been bound to a tainted node.
func (r *reconciler) podsToCheck(old, new *corev1.Pod) []kit.Key {
	pod := new
	if pod == nil {
		pod = old
	}
	key := kit.KeyOf(pod)
	switch {
	case r.pending.has(key):
	case new == nil, new.Spec.NodeName == "":
		return nil
	case len(r.taintsOf(new)) == 0:
		return nil
	}
	switch {
	case new == nil:
	case old == nil || old.UID != new.UID || old.Spec.NodeName != new.Spec.NodeName:
		r.arrived.Store(key, new.UID)
	case sameTolerations(old, new):
		return nil
	}
	return []kit.Key{key}
}

func sameTolerations(a, b *corev1.Pod) bool {
	return slices.EqualFunc(a.Spec.Tolerations, b.Spec.Tolerations, func(x, y corev1.Toleration) bool {
		if (x.TolerationSeconds == nil) != (y.TolerationSeconds == nil) || x.TolerationSeconds != nil && *x.TolerationSeconds != *y.TolerationSeconds {
			return false
		}
		return x.Key == y.Key && x.Operator == y.Operator && x.Value == y.Value && x.Effect == y.Effect
	})
}
