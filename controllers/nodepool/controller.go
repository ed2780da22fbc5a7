package nodepool

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/api/nodes/v1alpha1"
	"orrery/controllers/internal/slim"
	"orrery/kit"
	"orrery/kit/cache"
)

// Name of the controller.
const Name = "nodepool-controller"

// Descriptor describes the controller to the daemon.
func Descriptor() kit.Descriptor {
	o := &options{workers: 16}
	return kit.Descriptor{
		Name: Name, Aliases: []string{"nodepool"}, ServiceAccount: Name, EventSource: Name, OffByDefault: true,
		Summary:  "keeps the labels, annotations, taints and RuntimeClasses that NodePools specify for their nodes",
		AddFlags: o.addFlags, Validate: o.validate, Init: o.init, RBAC: rules(),
	}
}

// rules are what the controller may do. manifests/ grants them.
func rules() []rbacv1.PolicyRule {
	own := []string{v1alpha1.GroupName}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch", "patch"}},
		{APIGroups: own, Resources: []string{"nodepools"}, Verbs: []string{"get", "list", "watch", "patch"}},
		{APIGroups: own, Resources: []string{"nodepools/status"}, Verbs: []string{"update"}},
		{APIGroups: own, Resources: []string{"nodepools/finalizers"}, Verbs: []string{"update"}},
		{APIGroups: []string{"node.k8s.io"}, Resources: []string{"runtimeclasses"}, Verbs: []string{"get", "list", "watch", "create", "update", "delete"}},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
	}
}

type options struct {
	workers int32
	startup string
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.workers, "concurrent-nodepool-syncs", o.workers,
		"Number of nodes that the NodePool controller reconciles at once.")
	fs.StringVar(&o.startup, "nodepool-startup-taint", o.startup,
		"Taint, as key:effect, with which kubelets register new nodes. The NodePool controller removes it in its first patch, which gives the node what its pools specify.")
}

func (o *options) validate() []error {
	var errs []error
	if o.workers < 1 {
		errs = append(errs, fmt.Errorf("--concurrent-nodepool-syncs must be at least 1, got %d", o.workers))
	}
	if _, err := parseTaint(o.startup); err != nil {
		errs = append(errs, fmt.Errorf("--nodepool-startup-taint: %w", err))
	}
	return errs
}

func (o *options) init(cc kit.ControllerContext) (bool, error) {
	startup, err := parseTaint(o.startup)
	if err != nil {
		return false, err
	}
	r := &reconciler{
		client: cc.Client, live: cc.Live, recorder: cc.Recorder, metrics: newMetrics(), startup: startup,
		nodes: kit.Store[corev1.Node](cc), classes: kit.Store[nodev1.RuntimeClass](cc),
		catalog: newCatalog(), ledger: newLedger(), permits: newPermits(),
		wakeNode: kit.NewTrigger[kit.Key](), wakePool: kit.NewTrigger[kit.Key](), rehearses: cc.DryRun != nil,
	}
	if cc.Register != nil {
		r.metrics.publish(cc.Register)
	}
	f := &follower{cc: cc, r: r}
	for _, complete := range []func() error{
		kit.NewController(cc, kit.Func[kit.Key](r.reconcileNode)).
			Watch(kit.For(nodeChanged), r.wakeNode.Source().Named("pools")).
			Queue("nodepool_nodes").Workers(int(o.workers)).Complete,
		kit.NewController(cc, kit.Func[kit.Key](r.reconcilePool)).Loop("pools").
			Watch(r.wakePool.Source().Named("nodepools"), kit.Watches(r.poolsOf, countChanged).Delayed(statusDelay), kit.Watches(r.poolsOfClass)).
			Queue("nodepool_pools").Complete,
		kit.NewController(cc, kit.Func[theKind](f.reconcile)).Loop("kind").
			Watch(kit.Every(kindPeriod, theKind{})).Complete,
	} {
		if err := complete(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// Slimming returns the fields that the cache may drop in a process that runs only this controller.
func Slimming() map[schema.GroupVersionKind]cache.Slimming {
	node := corev1.SchemeGroupVersion.WithKind("Node")
	return map[schema.GroupVersionKind]cache.Slimming{node: slim.Kinds()[node]}
}

// kindPeriod is how often the server is asked whether it has the NodePool kind.
const kindPeriod = 2 * time.Second
