package replicaset

import (
	"fmt"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/component-base/featuregate"

	"orrery/controllers/internal/index"
	"orrery/controllers/internal/replicas"
	"orrery/kit"
)

// Name of the controller.
const Name = "replicaset-controller"

const (
	terminatingReplicas = featuregate.Feature("DeploymentReplicaSetTerminatingReplicas")
	deletionCost        = featuregate.Feature("PodDeletionCost")
	staleConsistency    = featuregate.Feature("StaleControllerConsistencyReplicaSet")
)

// Descriptor describes the controller to the daemon.
func Descriptor() kit.Descriptor {
	o := &options{workers: 5}
	return kit.Descriptor{
		Name: Name, Aliases: []string{"replicaset"}, ServiceAccount: "replicaset-controller", EventSource: "replicaset-controller",
		Summary:  "maintains the number of pods that each ReplicaSet specifies",
		AddFlags: o.addFlags, Validate: o.validate, Init: o.init,
		RBAC: replicas.Rules(appsv1.GroupName, "replicasets"),
	}
}

type options struct {
	workers int32
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.workers, "concurrent-replicaset-syncs", o.workers,
		"Number of ReplicaSets handled at once. A larger number reacts sooner and loads the API server more.")
}

func (o *options) validate() []error {
	if o.workers < 1 {
		return []error{fmt.Errorf("--concurrent-replicaset-syncs must be at least 1, got %d", o.workers)}
	}
	return nil
}

func (o *options) init(cc kit.ControllerContext) (bool, error) {
	m := newMetrics()
	if cc.Register != nil {
		m.publish(cc.Register)
	}
	kind := replicaSets()
	kind.Terminating = cc.Gates.Enabled(terminatingReplicas)
	kind.DeletionCost = cc.Gates.Enabled(deletionCost)
	kind.AgeRatio = m.ageRatio.Observe
	if cc.Gates.Enabled(staleConsistency) {
		kind.Skipped = m.skips.Add
	}
	return true, replicas.Complete[appsv1.ReplicaSet](cc, kind, "replicaset", int(o.workers))
}

// replicaSets describes ReplicaSets to the engine.
func replicaSets() replicas.Kind[*appsv1.ReplicaSet] {
	siblings := index.ByController[*appsv1.ReplicaSet]()
	return replicas.Kind[*appsv1.ReplicaSet]{
		GVK: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		Spec: func(rs *appsv1.ReplicaSet) replicas.Spec {
			s := replicas.Spec{
				Replicas: 1, MinReadySeconds: rs.Spec.MinReadySeconds, Selector: rs.Spec.Selector, Template: &rs.Spec.Template,
			}
			if rs.Spec.Replicas != nil {
				s.Replicas = *rs.Spec.Replicas
			}
			return s
		},
		Status: func(rs *appsv1.ReplicaSet) appsv1.ReplicaSetStatus { return rs.Status },
		WithStatus: func(rs *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) *appsv1.ReplicaSet {
			return &appsv1.ReplicaSet{ObjectMeta: rs.ObjectMeta, Status: status}
		},
		Siblings: &siblings,
	}
}
