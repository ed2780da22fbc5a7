package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
	"orrery/kit/events"
	"orrery/kit/health"
	"orrery/kit/leader"
	"orrery/kit/webhook"
)

// Manager holds what a process of controllers consists of. New makes it, Start runs it, once.
type Manager struct {
	o         Options
	config    *rest.Config
	discovery discovery.DiscoveryInterface
	cache     *cache.Cache
	rootCA    []byte
	metrics   *kit.Metrics
	webhooks  *webhook.Server // nil: none

	// The writes of what needs the lease pass through the fence, other writes do not.
	client, leadingClient *client.Client
	events, leadingEvents *publisher

	fence     *leader.Fence
	name      string            // of this process in elections
	candidate *leader.Candidate // nil: whoever gets the lease first leads
	election  *leader.Election  // nil: what needs the lease runs without one

	life    context.Context // of what New starts; ends with Start or Close
	end     context.CancelFunc
	failure context.Context // ends with the first error, which is its cause
	fail    context.CancelCauseFunc
	stopBy  func() time.Time // when everything has to have stopped; set by the first call
	started atomic.Bool

	servers, caches, free, leading *group
	conditions                     []func(context.Context) error
	listeners                      map[string]net.Listener

	mu          sync.Mutex // guards the fields below
	controllers []kit.Controller
	descriptors []kit.Descriptor
	leases      []*Lease // additional ones
	late        []string // what needed a lease and did not stop in time
}

// New checks the options, makes the clients and binds the ports. It sends no request to the API server. The config is
// copied. If it sets no rate limit, requests are not limited.
func New(config *rest.Config, o Options) (*Manager, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("manager options: %w", err)
	}
	m := &Manager{o: o, config: own(config, o.Name), metrics: kit.NewMetrics(), listeners: map[string]net.Listener{}}
	m.life, m.end = context.WithCancel(klog.NewContext(context.Background(), o.Log))
	m.failure, m.fail = context.WithCancelCause(m.life)
	m.stopBy = sync.OnceValue(func() time.Time { return time.Now().Add(o.ShutdownTimeout) })
	for _, g := range []**group{&m.servers, &m.caches, &m.free, &m.leading} {
		*g = &group{failed: m.failed}
	}
	m.register(m.metrics.Registerables()...)
	for _, step := range []func() error{m.connect, m.campaign, m.listen, m.listenForWebhooks} {
		if err := step(); err != nil {
			m.Close()
			return nil, fmt.Errorf("manager %s: %w", o.Name, err)
		}
	}
	if !o.Server.Skip {
		m.Before(func(ctx context.Context) error { return waitForServer(ctx, m.config, o.Server, o.Log) })
	}
	if !o.Cache.StartedByOthers {
		return m, m.caches.add(Func("cache", m.runCache))
	}
	return m, nil
}

// own returns a copy of a configuration with the defaults of a manager.
func own(config *rest.Config, name string) *rest.Config {
	c := rest.CopyConfig(config)
	if c.UserAgent == "" {
		c = client.AddAgent(c, name)
	}
	if c.QPS == 0 && c.RateLimiter == nil {
		c.QPS = -1 // the server's priority and fairness decides
	}
	if c.ContentType == "" {
		c.ContentType, c.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	}
	return c
}

// connect makes the clients, the cache and the recorders.
func (m *Manager) connect() error {
	// A copy: client-go rereads certificate files only if the configuration does not hold their contents.
	files := rest.CopyConfig(m.config)
	if err := rest.LoadTLSFiles(files); err != nil {
		return fmt.Errorf("read the certificates that the configuration names: %w", err)
	}
	m.rootCA = files.CAData
	if m.o.Mapper == nil {
		mapper, err := client.NewMapper(m.config, nil)
		if err != nil {
			return err
		}
		m.o.Mapper = mapper
	}
	var err error
	if m.discovery, err = discovery.NewDiscoveryClientForConfig(m.config); err != nil {
		return fmt.Errorf("discovery client for %s: %w", m.config.Host, err)
	}
	clients := client.Options{Scheme: m.o.Scheme, Mapper: m.o.Mapper}
	informers, err := client.New(client.Paced(client.AddAgent(rest.CopyConfig(m.config), "shared-informers")), clients)
	if err != nil {
		return err
	}
	c := m.o.Cache
	m.cache = cache.New(cache.Options{
		Client: informers, Namespaces: c.Namespaces, Kinds: c.Kinds, Slim: c.Slim, Resync: c.Resync, Await: c.Await, Name: c.Name, Log: m.o.Log,
	})
	m.fence = leader.NewFence(0)
	if m.o.Election.Enabled {
		m.fence = leader.NewFence(m.o.Election.LeaseDuration)
	}
	fenced := rest.CopyConfig(m.config)
	fenced.Wrap(m.fence.Wrap)
	if m.client, m.events, err = m.identity(m.config, clients); err != nil {
		return err
	}
	m.leadingClient, m.leadingEvents, err = m.identity(fenced, clients)
	return err
}

// identity makes the client and the publisher of events for a configuration.
func (m *Manager) identity(config *rest.Config, o client.Options) (*client.Client, *publisher, error) {
	c, err := client.New(config, o)
	if err != nil {
		return nil, nil, err
	}
	c = c.WithCache(m.cache)
	if m.o.Client.DryRun {
		c = c.DryRun()
	}
	for _, example := range m.o.Client.Uncached {
		gvk, err := c.GVKFor(example)
		if err != nil {
			return nil, nil, fmt.Errorf("Client.Uncached: %w", err)
		}
		c = c.Uncached(gvk)
	}
	ctx, end := context.WithCancel(m.life)
	p, err := events.NewPublisher(ctx, config)
	return c, &publisher{Publisher: p, ctx: ctx, end: end}, err
}

// campaign prepares the election.
func (m *Manager) campaign() (err error) {
	e := &m.o.Election
	if !e.Enabled {
		return nil
	}
	if m.name, err = leader.NewIdentity(); err != nil {
		return err
	}
	if v := e.Coordinated; v != nil {
		if m.candidate, err = leader.NewCandidate(m.config, m.name, e.Namespace, e.ID, *v); err != nil {
			return err
		}
		m.o.Checks.Add(health.Component, health.Func("leaseCandidate", m.checkCandidate))
	}
	var dog health.Check
	if m.election, dog, err = m.newElection(e.ID, m.fence, m.candidate); err == nil {
		m.o.Checks.Add(health.Process, dog)
	}
	return err
}

// newElection prepares an election for the lease of that name. While the lease is held, the fence is open. The check fails
// if the process has lost the lease and has not ended.
func (m *Manager) newElection(id string, fence *leader.Fence, candidate *leader.Candidate) (*leader.Election, health.Check, error) {
	e := m.o.Election
	lock, err := leader.NewLock(m.config, m.name, e.Kind, e.Namespace, id, e.RenewDeadline, m.events.Recorder(m.o.Scheme, m.o.Name))
	if err != nil {
		return nil, nil, err
	}
	if e.Optional {
		lock = leader.Optional(lock, m.o.Log)
	}
	dog := leaderelection.NewLeaderHealthzAdaptor(leader.WatchdogSlack)
	election, err := leader.New(leader.Config{
		Lock: lock, Name: id, LeaseDuration: e.LeaseDuration, RenewDeadline: e.RenewDeadline, RetryPeriod: e.RetryPeriod,
		KeepOnStop: e.KeepOnStop, Watchdog: dog, Fence: fence, Candidate: candidate,
	})
	return election, dog, err
}

// checkCandidate fails until the API server knows that this process wants to lead.
func (m *Manager) checkCandidate(*http.Request) error {
	if !m.candidate.Published() {
		return errors.New("the API server has not taken the lease candidate yet")
	}
	return nil
}

// listenForWebhooks makes the webhook server. The process is not ready before it answers.
func (m *Manager) listenForWebhooks() error {
	if m.o.Webhook == nil {
		return nil
	}
	o := *m.o.Webhook
	if o.Scheme == nil {
		o.Scheme = m.o.Scheme
	}
	if o.Log.GetSink() == nil {
		o.Log = klog.LoggerWithName(m.o.Log, "webhook")
	}
	var err error
	if m.webhooks, err = webhook.New(m.life, o); err != nil {
		return err
	}
	m.register(m.webhooks.Registerables()...)
	m.o.Checks.Add(health.Component, health.Func("webhook", m.webhooks.Check))
	return m.servers.add(m.webhooks)
}

// runCache runs the informers.
func (m *Manager) runCache(ctx context.Context) error {
	m.cache.Start(ctx)
	<-ctx.Done()
	m.cache.Wait()
	return nil
}

// failed notes an error that ends the process. The first one counts.
func (m *Manager) failed(err error) {
	if p, ok := errors.AsType[*kit.PanicError](err); ok {
		m.o.Log.Error(err, "Caught a panic", "stack", string(p.Stack))
	}
	if m.failure.Err() != nil {
		m.o.Log.Error(err, "Failed while the process was ending")
	}
	m.fail(err)
}

// Add runs a part of the process: with the lease, or in every process if it says that it needs none. It may be called
// while the manager runs, and then starts the part with its group.
func (m *Manager) Add(r Runnable) error {
	if needsLease(r) {
		return m.leading.add(r)
	}
	return m.free.add(r)
}

// AddServer runs a server. Servers are the first to start and the last to stop.
func (m *Manager) AddServer(r Runnable) error { return m.servers.add(r) }

// Before makes Start call wait after the servers have been started and before anything else is. wait returns once some
// condition holds; its error ends the process.
func (m *Manager) Before(wait func(context.Context) error) {
	m.conditions = append(m.conditions, wait)
}

// AddHealthCheck adds a check for what only a restart of the process can cure, and that a liveness probe therefore sees.
func (m *Manager) AddHealthCheck(name string, check func(*http.Request) error) {
	m.o.Checks.Add(health.Process, health.Func(name, check))
}

// AddReadyCheck adds a check that only a readiness probe sees.
func (m *Manager) AddReadyCheck(name string, check func(*http.Request) error) {
	m.o.Checks.Add(health.Component, health.Func(name, check))
}

// Close releases what New acquired. Start does so at its end; Close is for a manager that is never started.
func (m *Manager) Close() {
	for _, l := range m.listeners {
		_ = l.Close() // its server may have closed it already
	}
	if m.webhooks != nil {
		_ = m.webhooks.Close()
	}
	m.end()
	for _, c := range m.Controllers() {
		c.Run(m.life) // closes the queue of one that has never run; does nothing for others
	}
}
