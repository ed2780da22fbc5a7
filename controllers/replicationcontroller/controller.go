package replicationcontroller

import (
	"fmt"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/featuregate"

	"orrery/controllers/internal/replicas"
	"orrery/kit"
)

// Name of the controller.
const Name = "replicationcontroller-controller"

const deletionCost = featuregate.Feature("PodDeletionCost")

// Descriptor describes the controller to the daemon.
func Descriptor() kit.Descriptor {
	o := &options{workers: 5}
	return kit.Descriptor{
		Name: Name, Aliases: []string{"replicationcontroller"}, ServiceAccount: "replication-controller", EventSource: "replication-controller",
		Summary:  "maintains the number of pods that each ReplicationController specifies",
		AddFlags: o.addFlags, Validate: o.validate, Init: o.init,
		RBAC: replicas.Rules(corev1.GroupName, "replicationcontrollers"),
	}
}

type options struct {
	workers int32
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.workers, "concurrent-rc-syncs", o.workers,
		"Number of ReplicationControllers handled at once. A larger number reacts sooner and loads the API server more.")
}

func (o *options) validate() []error {
	if o.workers < 1 {
		return []error{fmt.Errorf("--concurrent-rc-syncs must be at least 1, got %d", o.workers)}
	}
	return nil
}

func (o *options) init(cc kit.ControllerContext) (bool, error) {
	kind := replicationControllers()
	kind.DeletionCost = cc.Gates.Enabled(deletionCost)
	return true, replicas.Complete[corev1.ReplicationController](cc, kind, "replicationmanager", int(o.workers))
}
