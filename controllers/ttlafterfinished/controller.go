package ttlafterfinished

import (
	"fmt"

	"github.com/spf13/pflag"
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"orrery/kit"
)

// Name of the controller.
const Name = "ttl-after-finished-controller"

// Descriptor describes the controller to the daemon.
func Descriptor() kit.Descriptor {
	o := &options{workers: 5}
	return kit.Descriptor{
		Name: Name, Aliases: []string{"ttl-after-finished"}, ServiceAccount: "ttl-after-finished-controller",
		Summary:  "deletes finished Jobs whose time to live has expired",
		AddFlags: o.addFlags, Validate: o.validate, Init: o.init,
		RBAC: []rbacv1.PolicyRule{
			{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"get", "list", "watch", "delete"}},
		},
	}
}

type options struct {
	workers int32
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.workers, "concurrent-ttl-after-finished-syncs", o.workers,
		"Number of finished Jobs handled at once. A larger number deletes sooner and loads the API server more.")
}

func (o *options) validate() []error {
	if o.workers < 1 {
		return []error{fmt.Errorf("--concurrent-ttl-after-finished-syncs must be at least 1, got %d", o.workers)}
	}
	return nil
}

func (o *options) init(cc kit.ControllerContext) (bool, error) {
	r := &reconciler{live: cc.Live, client: cc.Client, metrics: newMetrics()}
	if cc.Register != nil {
		cc.Register(r.metrics.deletion)
	}
	return true, kit.NewController(cc, kit.Objects(kit.Store[batchv1.Job](cc), r)).
		Watch(kit.For(mayExpire)).
		Queue("ttl_jobs_to_delete").Workers(int(o.workers)).Complete()
}

// mayExpire accepts only Jobs that have finished and have a TTL.
func mayExpire(_, job *batchv1.Job) bool {
	if job == nil {
		return false
	}
	_, ok := expiry(job)
	return ok
}
