package endpointslice

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"orrery/controllers/internal/roster"
	"orrery/kit"
	"orrery/kit/cache"
)

// Name of the controller.
const Name = "endpointslice-controller"

// repairDelay is the least time between a change of a slice and the reconcile that repairs it. The controller's own writes
// arrive as such changes too; with the delay a burst of them causes only one reconcile.
const repairDelay = time.Second

// firstRetry is the time before the first retry of a Service whose slices could not be written. It is long because each
// try may rewrite the slices of thousands of pods.
const firstRetry = time.Second

// Bounds of the flags.
const (
	mostWorkers   = 50
	mostEndpoints = 1000
)

// Descriptor describes the controller to the daemon.
func Descriptor() kit.Descriptor {
	o := &options{workers: 5, maxEndpoints: 100}
	return kit.Descriptor{
		Name: Name, Aliases: []string{"endpointslice"}, ServiceAccount: "endpointslice-controller",
		EventSource: "endpoint-slice-controller",
		Summary:     "lists the addresses of the pods behind each Service in EndpointSlices",
		AddFlags:    o.addFlags, Validate: o.validate, Init: o.init,
		RBAC: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"services", "pods", "nodes"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"services/finalizers"}, Verbs: []string{"update"}},
			{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"get", "list", "watch", "create", "update", "delete"}},
			{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
		},
	}
}

type options struct {
	workers      int32
	maxEndpoints int32
	batchPeriod  time.Duration
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.workers, "concurrent-service-endpoint-syncs", o.workers,
		"Number of Services whose EndpointSlices are brought up to date at once. A larger number follows pods sooner and loads the API server more.")
	fs.Int32Var(&o.maxEndpoints, "max-endpoints-per-slice", o.maxEndpoints,
		"Number of endpoints that an EndpointSlice may hold. A larger number makes fewer and larger slices.")
	fs.DurationVar(&o.batchPeriod, "endpointslice-updates-batch-period", o.batchPeriod,
		"Time that a pod change waits for others before EndpointSlices follow. A longer time makes fewer updates and delays each.")
}

func (o *options) validate() []error {
	var errs []error
	if o.workers < 1 || o.workers > mostWorkers {
		errs = append(errs, fmt.Errorf("--concurrent-service-endpoint-syncs must be from 1 to %d, got %d", mostWorkers, o.workers))
	}
	if o.maxEndpoints < 1 || o.maxEndpoints > mostEndpoints {
		errs = append(errs, fmt.Errorf("--max-endpoints-per-slice must be from 1 to %d, got %d", mostEndpoints, o.maxEndpoints))
	}
	return errs
}

func (o *options) init(cc kit.ControllerContext) (bool, error) {
	services, pods := kit.Store[corev1.Service](cc), kit.Store[corev1.Pod](cc)
	nodes, slices := kit.Store[corev1.Node](cc), kit.Store[discoveryv1.EndpointSlice](cc, slicesByService())
	r := &reconciler{
		client: cc.Client, recorder: cc.Recorder, maxEndpoints: int(o.maxEndpoints),
		service: services.Get,
		slices:  func(svc kit.Key) []*discoveryv1.EndpointSlice { return slices.By(slicesByService(), svc.String()) },
		node:    func(name string) (*corev1.Node, bool) { return nodes.Get(kit.Key{Name: name}) },
		roster:  roster.New(roster.Cache{Pod: pods.Get, Pods: pods.List, Selections: selections(services)}),
		zones:   newZones(func() []*corev1.Node { return nodes.List("") }),
		waiting: newWaiting(), triggers: newTriggers(),
		metrics: newMetrics(int(o.maxEndpoints)),
	}
	if cc.Register != nil {
		cc.Register(r.metrics.registerables()...)
	}
	again := kit.NewTrigger[kit.Key]()
	err := kit.NewController(cc, r).
		Watch(
			kit.For[corev1.Service](),
			kit.WatchChanges(r.servicesOfPod).Delayed(o.batchPeriod),
			kit.WatchChanges(servicesOfSlice).Delayed(max(repairDelay, o.batchPeriod)),
			kit.WatchChanges(r.servicesOfNode),
			again.Source(),
		).
		Queue("endpoint_slice").Workers(int(o.workers)).OnSkip(r.metrics.stale).Complete()
	if err != nil {
		return false, err
	}
	return true, kit.NewController(cc, r.rebalance(again.Add)).
		Loop("topology").
		Watch(kit.WatchChanges(r.zones.nodeChanged).Delayed(time.Second)).Complete()
}

// slicesByService indexes the managed slices by the Service that their label names.
func slicesByService() cache.Index[*discoveryv1.EndpointSlice] {
	return cache.Index[*discoveryv1.EndpointSlice]{Name: "managed-by-service", Keys: func(s *discoveryv1.EndpointSlice) []string {
		if key, ok := serviceOf(s); ok {
			return []string{key.String()}
		}
		return nil
	}}
}
