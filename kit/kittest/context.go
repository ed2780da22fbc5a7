package kittest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/cache"
)

// Context returns the context for building a controller of that name. With rules, a call that they do not grant is refused
// and fails the test; informers are exempt, since they run under the daemon's own identity.
func (a *API) Context(name string, rules ...rbacv1.PolicyRule) kit.ControllerContext {
	a.t.Helper()
	if a.cache == nil {
		a.cache = cache.New(cache.Options{Client: a.Client("informers"), Slim: a.slim, Log: a.logger("cache", 0)})
		filled, cancel := context.WithCancel(a.ctx)
		a.filled, a.forget = filled, func() {
			cancel()
			a.cache.Wait()
		}
	}
	c := a.Client(name, rules...).WithCache(a.cache)
	config := a.Config(name)
	config.ContentConfig.AcceptContentTypes = "application/json"
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		a.t.Fatalf("kittest: make discovery client: %v", err)
	}
	return kit.ControllerContext{
		Name: name, Client: c, Live: c.Live(), Cache: a.cache, Recorder: &recorder{a, name}, Log: a.logger(name, 4),
		Gates: a.featureGates(), Discovery: disco, Available: a.available, Metrics: kit.NewMetrics(),
	}
}

func (a *API) available(gvr schema.GroupVersionResource) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.registry.serves(gvr)
}

// Running is a controller, with all its loops, that Run started.
type Running struct {
	Controllers []kit.Controller
	cancel      context.CancelFunc
	done        sync.WaitGroup
}

// Stop stops the loops and waits until they have ended. The cache keeps running, and another Run may follow.
func (r *Running) Stop() {
	r.cancel()
	r.done.Wait()
}

// Run starts a controller, given as its Descriptor or its init function, and stops it at the end of the test. The
// controller is restricted to the RBAC rules of its descriptor.
func (a *API) Run(t testing.TB, what any) *Running {
	t.Helper()
	switch c := what.(type) {
	case kit.Descriptor:
		rules := c.RBAC
		if rules == nil {
			rules = []rbacv1.PolicyRule{}
		}
		return a.RunIn(t, a.Context(c.Name, rules...), c.Init)
	case kit.InitFunc:
		return a.RunIn(t, a.Context("test"), c)
	case func(kit.ControllerContext) (bool, error):
		return a.RunIn(t, a.Context("test"), c)
	}
	t.Fatalf("kittest: cannot run a %T", what)
	return nil
}

// RunIn starts the loops that an init function builds in a context.
func (a *API) RunIn(t testing.TB, cc kit.ControllerContext, init kit.InitFunc) *Running {
	t.Helper()
	scope := kit.NewScope()
	started, err := init(cc.In(scope))
	if err != nil {
		t.Fatalf("start %s: %v", cc.Name, err)
	}
	if !started {
		t.Fatalf("start %s: its init function reports that there is nothing to run", cc.Name)
	}
	ctx, cancel := context.WithCancel(a.ctx)
	r := &Running{Controllers: scope.Controllers(), cancel: cancel}
	t.Cleanup(r.Stop)
	a.cache.Start(a.filled)
	for _, c := range r.Controllers {
		r.done.Go(func() { c.Run(ctx) })
	}
	return r
}

// AllowPanics allows panics, which otherwise fail the test.
func (a *API) AllowPanics() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.panics = true
}

// logger returns a logger that writes to the test's log. A logged panic fails the test.
func (a *API) logger(name string, verbosity int) klog.Logger {
	return funcr.New(func(prefix, args string) {
		a.mu.Lock()
		allowed := a.panics
		a.mu.Unlock()
		if strings.Contains(args, `"Caught a panic"`) && !allowed {
			a.t.Errorf("%s %s", prefix, strings.ReplaceAll(args, `\n`, "\n"))
			return
		}
		a.t.Logf("%s %s", prefix, args)
	}, funcr.Options{Verbosity: verbosity}).WithName(name)
}

// Event is one event that a controller published.
type Event struct {
	// Controller is the name of the controller that published it.
	Controller string
	// Object is the kind, namespace and name of the object that it is about: "ReplicaSet default/web".
	Object string
	// Type is Normal or Warning.
	Type, Reason, Message string
	// Annotations of the event.
	Annotations map[string]string
}

// String returns "Normal SuccessfulCreate ReplicaSet default/web: Created pod: web-bbbbc".
func (e Event) String() string {
	return fmt.Sprintf("%s %s %s: %s", e.Type, e.Reason, e.Object, e.Message)
}

// Events returns the events published so far.
func (a *API) Events() []Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.events)
}

// recorder keeps events instead of sending them.
type recorder struct {
	api  *API
	name string
}

// Event implements record.EventRecorder.
func (r *recorder) Event(obj runtime.Object, kind, reason, message string) {
	r.AnnotatedEventf(obj, nil, kind, reason, "%s", message)
}

// Eventf implements record.EventRecorder.
func (r *recorder) Eventf(obj runtime.Object, kind, reason, format string, args ...any) {
	r.AnnotatedEventf(obj, nil, kind, reason, format, args...)
}

// AnnotatedEventf implements record.EventRecorder.
func (r *recorder) AnnotatedEventf(obj runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	e := Event{Controller: r.name, Type: kind, Reason: reason, Message: fmt.Sprintf(format, args...), Annotations: annotations, Object: r.api.nameOf(obj)}
	r.api.mu.Lock()
	defer r.api.mu.Unlock()
	r.api.events = append(r.api.events, e)
}

func (a *API) nameOf(obj runtime.Object) string {
	if ref, ok := referenceText(obj); ok {
		return ref
	}
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if gvks, _, err := a.scheme.ObjectKinds(obj); err == nil && kind == "" {
		kind = gvks[0].Kind
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return kind
	}
	if m.GetNamespace() == "" {
		return kind + " " + m.GetName()
	}
	return kind + " " + m.GetNamespace() + "/" + m.GetName()
}

// gates are the feature gates of a controller manager: those that the test overrides, and the others at their defaults.
type gates struct {
	featuregate.FeatureGate
	set map[featuregate.Feature]bool
}

// Enabled implements featuregate.FeatureGate.
func (g gates) Enabled(f featuregate.Feature) bool {
	if on, ok := g.set[f]; ok {
		return on
	}
	return !slices.Contains(offByDefault, f)
}

// offByDefault are the gates that are off by default in 1.37. All others that a controller asks for are on.
var offByDefault = []featuregate.Feature{
	"AtomicWriteVolumeUserFields", "CSIVolumeHealth", "ControllerManagerReleaseLeaderElectionLockOnExit",
	"CoordinatedLeaderElection", "DRAResourcePoolStatus", "DRAWorkloadResourceClaims", "GenericWorkload",
	"LocalStorageCapacityIsolationFSQuotaMonitoring", "StatefulSetRecreateStrategy", "StorageVersionAPI",
	"TaintTolerationComparisonOperators", "WorkloadWithJob",
}

func (a *API) featureGates() featuregate.FeatureGate {
	return gates{featuregate.NewFeatureGate(), a.gates}
}
