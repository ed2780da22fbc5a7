package nodelifecycle

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-base/featuregate"

	"orrery/controllers/internal/index"
	"orrery/kit"
)

const (
	// Name of the controller.
	Name = "node-lifecycle-controller"

	nodeWorkers = 8
	podWorkers  = 4
)

// Descriptor describes the controller to the daemon.
func Descriptor() kit.Descriptor {
	o := &options{
		monitorPeriod: 5 * time.Second, gracePeriod: 50 * time.Second, startupGrace: time.Minute,
		evictionRate: 0.1, secondaryRate: 0.01, largeCluster: 50, unhealthyZone: 0.55,
	}
	core := []string{""}
	return kit.Descriptor{
		Name: Name, Aliases: []string{"nodelifecycle"}, ServiceAccount: "node-controller", EventSource: "node-controller",
		Summary:  "monitors the heartbeats of nodes, and taints nodes that are unreachable or unhealthy",
		AddFlags: o.addFlags, Validate: o.validate, Init: o.init,
		RBAC: []rbacv1.PolicyRule{
			{APIGroups: core, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch", "patch"}},
			{APIGroups: core, Resources: []string{"nodes/status", "pods/status"}, Verbs: []string{"patch"}},
			{APIGroups: core, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}},
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
		},
	}
}

type options struct {
	monitorPeriod, gracePeriod, startupGrace time.Duration
	evictionRate, secondaryRate              float32
	largeCluster                             int32
	unhealthyZone                            float32
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.monitorPeriod, "node-monitor-period", o.monitorPeriod,
		"How often the heartbeats of all nodes are checked.")
	fs.DurationVar(&o.gracePeriod, "node-monitor-grace-period", o.gracePeriod,
		"How long a running node may be silent before it is marked unhealthy. It has to be several times the kubelet's heartbeat period.")
	fs.DurationVar(&o.startupGrace, "node-startup-grace-period", o.startupGrace,
		"How long a new node may be silent before it is marked unhealthy.")
	fs.Float32Var(&o.evictionRate, "node-eviction-rate", o.evictionRate,
		"Nodes per second whose pods are evicted in a healthy zone. A zone is healthy while fewer nodes than --unhealthy-zone-threshold are lost.")
	fs.Float32Var(&o.secondaryRate, "secondary-node-eviction-rate", o.secondaryRate,
		"Nodes per second whose pods are evicted in an unhealthy zone; 0 in a zone of at most --large-cluster-size-threshold nodes.")
	fs.Int32Var(&o.largeCluster, "large-cluster-size-threshold", o.largeCluster,
		"Number of nodes up to which an unhealthy zone evicts nothing.")
	fs.Float32Var(&o.unhealthyZone, "unhealthy-zone-threshold", o.unhealthyZone,
		"Part of a zone's nodes (and at least 3) that have to be lost for the zone to be unhealthy.")
}

func (o *options) validate() []error {
	var errs []error
	positive := func(flag string, d time.Duration) {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("--%s must be longer than 0, got %s", flag, d))
		}
	}
	positive("node-monitor-period", o.monitorPeriod)
	positive("node-monitor-grace-period", o.gracePeriod)
	if o.startupGrace < 0 {
		errs = append(errs, fmt.Errorf("--node-startup-grace-period must be at least 0, got %s", o.startupGrace))
	}
	notNegative := func(flag string, rate float32) {
		if !(rate >= 0) {
			errs = append(errs, fmt.Errorf("--%s must be at least 0, got %v", flag, rate))
		}
	}
	notNegative("node-eviction-rate", o.evictionRate)
	notNegative("secondary-node-eviction-rate", o.secondaryRate)
	notNegative("unhealthy-zone-threshold", o.unhealthyZone) // above 1 no zone is unhealthy that has a node left
	return errs
}

func (o *options) init(cc kit.ControllerContext) (bool, error) {
	m := newMetrics()
	if cc.Register != nil {
		cc.Register(m.all()...)
	}
	zoneEvictions := kit.NewTrigger[string]()
	r := &reconciler{
		options: *o, client: cc.Client, live: cc.Live, recorder: cc.Recorder, metrics: m,
		nodes: kit.Store[corev1.Node](cc), leases: kit.Store[coordinationv1.Lease](cc), pods: kit.Store(cc, index.PodsByNode()),
		breaker: cc.Gates == nil || cc.Gates.Enabled(featuregate.Feature("NodeControllerLeaseCircuitBreaker")),
		health:  map[string]*health{}, known: map[string]*corev1.Node{}, retry: map[string]bool{},
	}
	r.zones = newZones(*o, zoneEvictions.Add)
	for _, complete := range []func() error{
		kit.NewController(cc, kit.Objects(r.nodes, kit.ObjectFunc[*corev1.Node](r.reconcileNode))).
			Watch(kit.For(nodeChanged)).Queue("node_lifecycle_controller").Workers(nodeWorkers).Complete,
		kit.NewController(cc, kit.Objects(r.pods, kit.ObjectFunc[*corev1.Pod](r.reconcilePod))).Loop("pods").
			Watch(kit.WatchChanges(r.placedOnLostNode)).Queue("node_lifecycle_controller_pods").Workers(podWorkers).Complete,
		kit.NewController(cc, kit.Func[all](r.monitor)).Loop("heartbeats").
			Watch(kit.Every(o.monitorPeriod, all{})).Complete,
		kit.NewController(cc, kit.Func[string](r.evictZone)).Loop("evictions").
			Watch(zoneEvictions.Source()).Complete,
	} {
		if err := complete(); err != nil {
			return false, err
		}
	}
	return true, nil
}
