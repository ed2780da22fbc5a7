package garbagecollector

import (
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"

	"orrery/controllers/garbagecollector/graph"
	"orrery/kit"
)

const (
	// Name of the controller.
	Name = "garbage-collector-controller"
	// deletesPerWorker is how many objects a worker handles at once. Most only have to be deleted, and all that the worker
	// does is wait for the server, which deletes more in the same time if it gets more at once.
	deletesPerWorker = 4
)

// Descriptor describes the controller to the daemon.
func Descriptor() kit.Descriptor {
	o := &options{enabled: true, workers: 20}
	return kit.Descriptor{
		Name: Name, Aliases: []string{"garbagecollector"}, ServiceAccount: "generic-garbage-collector",
		Summary:  "deletes objects whose owners are gone, and completes foreground and orphaning deletions",
		AddFlags: o.addFlags, Validate: o.validate, Init: o.init,
		Pages: map[string]http.Handler{"graph": http.HandlerFunc(o.serveGraph)},
		RBAC: []rbacv1.PolicyRule{
			{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch", "patch", "update", "delete"}},
			{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
		},
	}
}

type options struct {
	enabled bool
	workers int32
	graph   atomic.Pointer[graph.Graph] // of the running controller, for its page
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.enabled, "enable-garbage-collector", o.enabled,
		"Run the garbage collector. Must have the same value as the flag of that name of kube-apiserver.")
	fs.Int32Var(&o.workers, "concurrent-gc-syncs", o.workers,
		fmt.Sprintf("Number of workers of the garbage collector, each of which deletes up to %d objects at once.", deletesPerWorker))
}

func (o *options) validate() []error {
	if o.workers < 1 {
		return []error{fmt.Errorf("--concurrent-gc-syncs: %d: must be at least 1", o.workers)}
	}
	return nil
}

func (o *options) init(cc kit.ControllerContext) (bool, error) {
	if !o.enabled {
		return false, nil
	}
	m := newMetrics()
	if cc.Register != nil {
		cc.Register(m.syncErrors)
	}
	check, orphan := kit.NewTrigger[graph.Ref](), kit.NewTrigger[graph.Ref]()
	twins := &twins{}
	r := &reconciler{
		graph: graph.New(), known: newKnowledge(), api: cluster{live: cc.Live, cache: cc.Cache, twins: twins},
		check: check.AddAfter, orphan: orphan.Add, recorder: cc.Recorder,
	}
	o.graph.Store(r.graph)
	k := &kinds{
		discover: func() (found, error) { return deletable(cc.Discovery) },
		follow:   r.follower(cc), errors: m.syncErrors, followed: followed{}, twins: twins,
		reset: func() { meta.MaybeResetRESTMapper(cc.Client.Mapper()) },
	}
	r.whole = k.whole
	for _, err := range []error{
		kit.NewController(cc, k).Loop("kinds").Queue("garbage_collector_graph_changes").
			Watch(kit.Every(resyncPeriod, resync{}).WaitFor(cc.Cache.Started)).Complete(),
		kit.NewController(cc, r).Queue("garbage_collector_attempt_to_delete").
			Watch(check.Source().Named("graph").WaitFor(k.ready)).Workers(deletesPerWorker * int(o.workers)).Complete(),
		kit.NewController(cc, kit.Func[graph.Ref](r.reconcileOrphan)).Loop("orphan").Queue("garbage_collector_attempt_to_orphan").
			Watch(orphan.Source().Named("graph").WaitFor(k.ready)).Workers(int(o.workers)).Complete(),
	} {
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// deletable asks the server for all kinds that can be collected.
func deletable(d discovery.DiscoveryInterface) (found, error) {
	if cached, ok := d.(discovery.CachedDiscoveryInterface); ok {
		cached.Invalidate()
	}
	lists, err := d.ServerPreferredResources()
	return collectable(lists, err)
}
