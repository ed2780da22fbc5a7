package manager

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	"orrery/kit/cache"
	"orrery/kit/client"
	"orrery/kit/health"
	"orrery/kit/leader"
	"orrery/kit/webhook"
)

// Options configures New. Only Name is required.
type Options struct {
	// Name of the process: in events, user agents, metrics and, by default, that of the lease.
	Name string
	// Scheme maps Go types to kinds; nil means the built-in ones.
	Scheme *runtime.Scheme
	// Mapper maps kinds to resources; nil means one that also finds kinds installed later.
	Mapper meta.RESTMapper
	// Cache says what is cached.
	Cache Cache
	// Client says how controllers read and write.
	Client Client
	// Election is about the lease.
	Election Election
	// Metrics serves /metrics, Health /healthz, /livez and /readyz.
	Metrics, Health Listener
	// Checks are what the health pages show; nil means the manager's own.
	Checks *health.Checks
	// Webhook serves admission webhooks; nil means none. Scheme and Log default to those of the manager.
	Webhook *webhook.Options
	// Server says what has to answer before anything that needs the API server is started.
	Server Server
	// ShutdownTimeout is how long everything together may take to stop; 0 means 30 s.
	ShutdownTimeout time.Duration
	// SyncTimeout is how long caches may take to be filled before that is an error; 0 means 2 min, a negative value no limit.
	SyncTimeout time.Duration
	// Gates are the feature gates of controllers; nil means that all are off.
	Gates featuregate.FeatureGate
	// Log is the parent of all loggers; the zero value means klog's.
	Log klog.Logger
}

// Cache says what is cached.
type Cache struct {
	// Namespaces restricts the cache; none means all.
	Namespaces []string
	// Kinds restricts which objects of single kinds are cached.
	Kinds map[schema.GroupVersionKind]cache.Kind
	// Slim names, per kind, the fields that are not kept.
	Slim map[schema.GroupVersionKind]cache.Slimming
	// Resync is the period after which controllers see all their objects again; 0 means 10 h, a negative one never.
	Resync time.Duration
	// Name of the informers in metrics; nil publishes none.
	Name *toolscache.InformerName
	// Await makes controllers wait for built-in kinds that the server does not have; otherwise a missing one is an error.
	Await bool
	// StartedByOthers leaves it to the caller to start the cache and to wait for it.
	StartedByOthers bool
}

// Client says how controllers read and write.
type Client struct {
	// Uncached are examples of types that are always read from the server.
	Uncached []client.Object
	// DryRun makes the server validate every write and store none.
	DryRun bool
}

// Election is about the lease.
type Election struct {
	// Enabled makes one process at a time run what needs the lease. If false, it runs without a lease.
	Enabled bool
	// ID is the lease's name; empty means the name of the process.
	ID string
	// Namespace is the lease's; empty means that of the pod that this process runs in.
	Namespace string
	// LeaseDuration, RenewDeadline and RetryPeriod are 15 s, 10 s and 2 s if they are 0.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// Optional goes on without the lease if the server forbids this process to use it. It is for processes that store nothing.
	Optional bool
	// KeepOnStop does not release the lease on a stop, so that the next leader waits until it expires.
	KeepOnStop bool
	// Coordinated lets the API server choose the leader, which needs its feature gate CoordinatedLeaderElection; nil means
	// that whoever gets the lease first leads.
	Coordinated *leader.Versions
	// Kind is the kind of lock; empty means leases, which is the only one there is.
	Kind string
}

// Listener is a port for pages in plain HTTP, or with TLS in HTTPS.
type Listener struct {
	// Address is host:port; empty or "0" means that there is none.
	Address string
	// Handlers are further pages by path.
	Handlers map[string]http.Handler
	// TLS is used if it is not nil; it needs a certificate.
	TLS *tls.Config
}

// Server says what has to answer before anything that needs the API server is started.
type Server struct {
	// Skip waits for nothing.
	Skip bool
	// Probe is a path that the process has to be allowed to read, beside /version; empty means none.
	Probe string
	// Role is what the process needs if it is not allowed to read Probe, for the error message.
	Role string
}

const (
	defaultShutdownTimeout = 30 * time.Second
	defaultSyncTimeout     = 2 * time.Minute
	defaultResync          = 10 * time.Hour
	defaultLeaseDuration   = 15 * time.Second
	defaultRenewDeadline   = 10 * time.Second
	defaultRetryPeriod     = 2 * time.Second
)

// podNamespace is the file in which a pod finds the name of its namespace.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// complete fills in defaults and reports every problem at once.
func (o *Options) complete() error {
	var errs []error
	if o.Name == "" {
		errs = append(errs, errors.New("Name is required"))
	}
	if o.Scheme == nil {
		o.Scheme = clientscheme.Scheme
	}
	if o.Checks == nil {
		o.Checks = health.New()
	}
	if o.Log.GetSink() == nil {
		o.Log = klog.Background()
	}
	if o.Gates == nil {
		o.Gates = allOff{featuregate.NewFeatureGate()}
	}
	if o.ShutdownTimeout < 0 {
		errs = append(errs, fmt.Errorf("ShutdownTimeout is %s: must not be negative", o.ShutdownTimeout))
	}
	o.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, defaultShutdownTimeout)
	o.SyncTimeout = cmp.Or(o.SyncTimeout, defaultSyncTimeout)
	o.Cache.Resync = max(0, cmp.Or(o.Cache.Resync, defaultResync))
	if e := &o.Election; e.Enabled {
		errs = append(errs, e.complete(o.Name))
	}
	return errors.Join(errs...)
}

func (e *Election) complete(name string) error {
	e.ID, e.Kind = cmp.Or(e.ID, name), cmp.Or(e.Kind, leader.LockKind)
	e.LeaseDuration = cmp.Or(e.LeaseDuration, defaultLeaseDuration)
	e.RenewDeadline = cmp.Or(e.RenewDeadline, defaultRenewDeadline)
	e.RetryPeriod = cmp.Or(e.RetryPeriod, defaultRetryPeriod)
	if e.Namespace != "" {
		return nil
	}
	data, err := os.ReadFile(podNamespace)
	if err != nil {
		return errors.New("Election.Namespace is required: this process does not run in a pod that would tell")
	}
	e.Namespace = strings.TrimSpace(string(data))
	return nil
}

// off reports whether there is no listener.
func (l Listener) off() bool { return l.Address == "" || l.Address == "0" }

// allOff is a set of feature gates that are all off.
type allOff struct{ featuregate.FeatureGate }

// Enabled implements featuregate.FeatureGate.
func (allOff) Enabled(featuregate.Feature) bool { return false }
