package daemonset

import (
	"fmt"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/featuregate"

	"orrery/controllers/internal/history"
	"orrery/kit"
)

// Name of the controller.
const Name = "daemonset-controller"

const (
	staleConsistency  = featuregate.Feature("StaleControllerConsistencyDaemonSet")
	numberTolerations = featuregate.Feature("TaintTolerationComparisonOperators")
)

// Descriptor describes the controller to the daemon.
func Descriptor() kit.Descriptor {
	o := &options{workers: 2}
	return kit.Descriptor{
		Name: Name, Aliases: []string{"daemonset"}, ServiceAccount: "daemon-set-controller", EventSource: "daemonset-controller",
		Summary:  "runs a pod of each DaemonSet on every eligible node",
		AddFlags: o.addFlags, Validate: o.validate, RBAC: rules(), Init: o.init,
	}
}

func rules() []rbacv1.PolicyRule {
	apps, core := []string{appsv1.GroupName}, []string{""}
	return []rbacv1.PolicyRule{
		{APIGroups: apps, Resources: []string{"daemonsets"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: apps, Resources: []string{"daemonsets/status"}, Verbs: []string{"update"}},
		{APIGroups: apps, Resources: []string{"daemonsets/finalizers"}, Verbs: []string{"update"}}, // blocks deletion of the owner
		history.Rule(),
		{APIGroups: core, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}},
		{APIGroups: core, Resources: []string{"pods"}, Verbs: []string{"list", "watch", "create", "delete", "patch"}},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
	}
}

type options struct {
	workers int32
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.workers, "concurrent-daemonset-syncs", o.workers,
		"Number of DaemonSets reconciled at once. A larger number reacts sooner and loads the API server more.")
}

func (o *options) validate() []error {
	if o.workers < 1 {
		return []error{fmt.Errorf("--concurrent-daemonset-syncs must be at least 1, got %d", o.workers)}
	}
	return nil
}

func (o *options) init(cc kit.ControllerContext) (bool, error) {
	m := newMetrics()
	if cc.Register != nil {
		m.publish(cc.Register)
	}
	var skipped func(schema.GroupResource)
	if cc.Gates.Enabled(staleConsistency) {
		skipped = m.skips.Add
	}
	return true, newReconciler(cc).complete(cc, int(o.workers), skipped)
}

// complete builds the two loops: the one for DaemonSets, and the one for nodes, which requeues DaemonSets.
func (r *reconciler) complete(cc kit.ControllerContext, workers int, skipped func(schema.GroupResource)) error {
	nodes := kit.NewController(cc, kit.Func[string](r.reconcileNode)).Loop("node-updates").
		Watch(kit.WatchChanges[corev1.Node](r.changes.note)).
		Queue("daemonset-node-updates").Workers(workers)
	if err := nodes.Complete(); err != nil {
		return err
	}
	return kit.NewController(cc, r).
		Watch(
			kit.For[appsv1.DaemonSet](),
			kit.Owns[corev1.Pod, appsv1.DaemonSet](matters),
			kit.Owns[appsv1.ControllerRevision, appsv1.DaemonSet](),
			kit.WatchChanges[corev1.Pod](adopters[*corev1.Pod](r.sets)).Named("orphaned pods"),
			kit.WatchChanges[appsv1.ControllerRevision](adopters[*appsv1.ControllerRevision](r.sets)).Named("orphaned revisions"),
			r.wake.Source().Named("changed nodes"),
		).
		Queue("daemonset").Workers(workers).OnSkip(skipped).Complete()
}
