package podgc

import (
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"orrery/controllers/internal/index"
	"orrery/kit"
)

// Name of the controller.
const Name = "pod-garbage-collector-controller"

const (
	// period is the time between two sweeps.
	period = 20 * time.Second
	// quarantine is how long a node has to be missing from the cache before the server is asked about it.
	quarantine = 40 * time.Second
	// tolerance is how much of the quarantine may be missing: sweeps begin a few milliseconds late, some more than others,
	// and without it a node would often stay in quarantine for one sweep too many.
	tolerance = time.Second
	// parallelism is how many pods are removed at once.
	parallelism = 100
)

// Descriptor describes the controller to the daemon.
func Descriptor() kit.Descriptor {
	o := &options{threshold: 12500}
	return kit.Descriptor{
		Name: Name, Aliases: []string{"podgc"}, ServiceAccount: "pod-garbage-collector",
		Summary:  "removes finished pods above a threshold and pods whose node no longer exists",
		AddFlags: o.addFlags, Init: o.init,
		RBAC: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch", "delete"}},
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
		},
	}
}

type options struct {
	threshold int32
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.threshold, "terminated-pod-gc-threshold", o.threshold,
		"Number of finished pods that may exist before the oldest are deleted. With 0 or less all finished pods are kept; other pods that this controller removes are still removed.")
}

func (o *options) init(cc kit.ControllerContext) (bool, error) {
	r := &reconciler{
		pods:  kit.Store(cc, index.PodsByEnd(), index.PodsByNode()),
		nodes: kit.Store[corev1.Node](cc), client: cc.Client, live: cc.Live,
		threshold: int(o.threshold), missing: map[string]time.Time{}, metrics: newMetrics(),
	}
	if cc.Register != nil {
		cc.Register(r.metrics.deletions, r.metrics.errors)
	}
	return true, kit.NewController(cc, r).Watch(kit.Every(period, sweep{})).Queue("orphaned_pods_nodes").Complete()
}
