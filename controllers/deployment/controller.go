package deployment

import (
	"fmt"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-base/featuregate"

	"orrery/controllers/internal/index"
	"orrery/kit"
)

// Name of the controller.
const Name = "deployment-controller"

// terminatingReplicas is the feature gate of status.terminatingReplicas.
const terminatingReplicas featuregate.Feature = "DeploymentReplicaSetTerminatingReplicas"

// Descriptor describes the controller to the daemon.
func Descriptor() kit.Descriptor {
	o := &options{workers: 5}
	return kit.Descriptor{
		Name: Name, Aliases: []string{"deployment"}, ServiceAccount: "deployment-controller", EventSource: "deployment-controller",
		Summary:  "rolls out Deployments by creating, scaling and deleting their ReplicaSets",
		AddFlags: o.addFlags, Validate: o.validate, RBAC: rules(), Init: o.init,
	}
}

func rules() []rbacv1.PolicyRule {
	apps := []string{"apps"}
	return []rbacv1.PolicyRule{
		{APIGroups: apps, Resources: []string{"deployments"}, Verbs: []string{"get", "list", "watch", "update"}},
		{APIGroups: apps, Resources: []string{"deployments/status", "deployments/finalizers"}, Verbs: []string{"update"}},
		{APIGroups: apps, Resources: []string{"replicasets"}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
	}
}

type options struct {
	workers int32
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.workers, "concurrent-deployment-syncs", o.workers,
		"Number of Deployments reconciled at once. A larger number answers sooner and loads the API server more.")
}

func (o *options) validate() []error {
	if o.workers < 1 {
		return []error{fmt.Errorf("--concurrent-deployment-syncs must be at least 1, got %d", o.workers)}
	}
	return nil
}

func (o *options) init(cc kit.ControllerContext) (bool, error) {
	deployments := kit.Store(cc, bySelector())
	sets := kit.Store(cc, index.ByController[*appsv1.ReplicaSet](), index.Orphans[*appsv1.ReplicaSet]())
	pods := kit.Store(cc, index.ByController[*corev1.Pod]())
	r := &reconciler{
		api:             newAPI(cc, sets, pods),
		recorder:        cc.Recorder,
		withTerminating: cc.Gates.Enabled(terminatingReplicas),
	}
	w := &watches{deployments: deployments, sets: sets, pods: pods}
	return true, kit.NewController(cc, kit.Objects(deployments, r)).
		Watch(
			kit.For[appsv1.Deployment](),
			kit.Owns[appsv1.ReplicaSet, appsv1.Deployment](),
			kit.WatchChanges[appsv1.ReplicaSet](w.adopters).Named("orphaned ReplicaSets"),
			kit.WatchChanges[corev1.Pod](w.emptied).Named("ended pods"),
		).
		Queue("deployment").Workers(int(o.workers)).Complete()
}
