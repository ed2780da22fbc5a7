package kit

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/featuregate"
	compmetrics "k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"orrery/kit/cache"
	"orrery/kit/client"
)

// Descriptor is what the daemon knows of a controller. One folder under controllers/ exports one.
type Descriptor struct {
	// Name is the canonical name: in logs, health checks, --controllers and the flag section of --help.
	Name string
	// Aliases are older names that --controllers still takes.
	Aliases []string
	// Summary says in one line what the controller does.
	Summary string
	// ServiceAccount in kube-system is the identity for --use-service-account-credentials; empty means the root client.
	ServiceAccount string
	// EventSource is the component named in the controller's events; empty means Name.
	EventSource string
	// FeatureGates must all be on for the controller to run.
	FeatureGates []featuregate.Feature
	// OffByDefault controllers run only where --controllers names them.
	OffByDefault bool
	// AddFlags registers the controller's own flags; nil if it has none.
	AddFlags func(*pflag.FlagSet)
	// Validate reports every problem of the controller's own flags; nil if it has none.
	Validate func() []error
	// RBAC lists the calls the controller makes. Tests reject others and compare the list with the bootstrap roles.
	RBAC []rbacv1.PolicyRule
	// Kinds have to be served for the controller to be built: while the server lacks one, as where a CustomResourceDefinition
	// is not installed yet, the process waits for it and says so once.
	Kinds []schema.GroupVersionKind
	// Pages are further debug pages by name, served below that of the controller; nil if it has none.
	Pages map[string]http.Handler
	// Init builds the controller.
	Init InitFunc
}

// InitFunc builds a controller. started is false where there is nothing to run, as with a missing flag; that is not an
// error.
type InitFunc func(cc ControllerContext) (started bool, err error)

// ControllerContext is what a controller is built with. It is already scoped to the controller: its client has the
// controller's identity, its recorder the controller's event source, its logger the controller's name.
type ControllerContext struct {
	// Name of the controller; empty for one that is to be named after its kind.
	Name string
	// Client reads from the cache and writes to the server.
	Client *client.Client
	// Live both reads from and writes to the server.
	Live *client.Client
	// Cache holds the informers shared by all controllers. Use Store for the typed view.
	Cache *cache.Cache
	// Recorder publishes events with the controller's source component. It never blocks.
	Recorder record.EventRecorder
	// Log carries the controller's name.
	Log klog.Logger
	// Gates are the feature gates. Read them in Init and pass booleans on.
	Gates featuregate.FeatureGate
	// Discovery asks the server which resources it serves.
	Discovery discovery.DiscoveryInterface
	// Available reports whether the server serves a resource, for controllers of optional APIs.
	Available func(schema.GroupVersionResource) bool
	// RootCA is the CA bundle of the process's own connection to the API server, in PEM form; empty if it has none.
	RootCA []byte
	// Metrics are the loop's own metrics.
	Metrics *Metrics
	// Register publishes a controller's own metrics. Nil publishes nothing.
	Register func(...compmetrics.Registerable)

	// DryRun records what would have been written where Client and Live only have writes validated; nil otherwise.
	DryRun *DryRun
	// PanicPolicy says what happens on a panic; empty means IsolatePanics.
	PanicPolicy PanicPolicy

	scope  *Scope
	needs  *needs
	panics *panics
	kind   schema.GroupVersionKind // what OfKind set for the source that is being attached
	own    schema.GroupVersionKind // of the objects that the controller's keys name; empty if that is not known
}

// Scope collects what the Init functions of one process build. The daemon runs and shows what is in it.
type Scope struct {
	built func(Controller) error // called for each; nil if nobody asks

	mu          sync.Mutex // guards controllers
	controllers []Controller
}

// NewScope returns an empty scope.
func NewScope() *Scope { return &Scope{} }

// NewScopeFor returns an empty scope that passes each completed controller to built, whose error Complete returns.
func NewScopeFor(built func(Controller) error) *Scope { return &Scope{built: built} }

// In returns a copy of the context, for one Init, whose controllers are collected in s.
func (cc ControllerContext) In(s *Scope) ControllerContext {
	cc.scope, cc.needs, cc.panics = s, &needs{}, &panics{}
	if cc.Metrics == nil {
		cc.Metrics = NewMetrics()
	}
	return cc
}

// Controllers returns the control loops built so far, in order of completion.
func (s *Scope) Controllers() []Controller {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.controllers)
}

// Build has f build a controller and passes its loops to add. Before f has completed all of them, none is added.
func (f InitFunc) Build(cc ControllerContext, add func(Controller) error) (started bool, err error) {
	scope := NewScope()
	if started, err = f(cc.In(scope)); err != nil {
		return false, fmt.Errorf("start controller %s: %w", cc.Name, err)
	}
	if !started {
		return false, nil
	}
	for _, c := range scope.Controllers() {
		if err := add(c); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (s *Scope) add(c Controller) error {
	s.mu.Lock()
	if slices.ContainsFunc(s.controllers, func(o Controller) bool { return o.Name() == c.Name() }) {
		s.mu.Unlock()
		return fmt.Errorf("controller %s: there is one of this name already", c.Name())
	}
	s.controllers = append(s.controllers, c)
	s.mu.Unlock()
	if s.built == nil {
		return nil
	}
	return s.built(c)
}

// needs are the informers that one Init asked for. Its controllers wait for all of them before their first reconcile.
type needs struct {
	mu        sync.Mutex // guards the fields below
	informers []*cache.Informer
	err       error
}

func (n *needs) add(i *cache.Informer, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case err != nil:
		n.err = err
	case !slices.Contains(n.informers, i):
		n.informers = append(n.informers, i)
	}
}

func (n *needs) list() ([]*cache.Informer, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.informers), n.err
}

// Store returns the typed view of the cache for a kind, with the indexes that the caller will use. The kind is cached
// from then on, and the controllers built in the same Init wait until it is. An error, as for a kind that the server
// does not have, is returned by Complete.
func Store[T any, P client.Ptr[T]](cc ControllerContext, indexes ...cache.Index[P]) cache.Store[P] {
	s, err := cache.Of[T, P](cc.Cache, indexes...)
	cc.needs.add(s.Informer(), err)
	return s
}

// StoreOfKind is Store for unstructured.Unstructured and metav1.PartialObjectMetadata, whose Go types name no kind.
func StoreOfKind[T any, P client.Ptr[T]](cc ControllerContext, gvk schema.GroupVersionKind, indexes ...cache.Index[P]) cache.Store[P] {
	s, err := cache.OfKind[T, P](cc.Cache, gvk, indexes...)
	cc.needs.add(s.Informer(), err)
	return s
}

// storeOf returns the store that a source watches.
func storeOf[T any, P client.Ptr[T]](cc ControllerContext) (cache.Store[P], error) {
	if cc.kind.Kind != "" {
		return cache.OfKind[T, P](cc.Cache, cc.kind)
	}
	return cache.Of[T, P](cc.Cache)
}

// backoffBase and backoffCap bound the time between two retries of a failing key; it doubles with each failure.
const (
	backoffBase = 5 * time.Millisecond
	backoffCap  = time.Minute
)
