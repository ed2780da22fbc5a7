package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"orrery/app/serving"
	"orrery/controllers"
	"orrery/kit"
	"orrery/kit/cache"
	"orrery/options"
)

// Run is the daemon. It returns nil after ctx has ended and everything has stopped in order, and an error if it could
// not start, or had to end because the lease was lost.
func Run(ctx context.Context, s *options.CMServer) error {
	log := klog.FromContext(ctx)

	// Clients and recorder.
	config, err := loadConfig(s)
	if err != nil {
		return err
	}
	guard := &fence{}
	if s.LeaderElection.LeaderElect {
		guard.duration = s.LeaderElection.LeaseDuration.Duration
	}
	c, err := newClients(config, s.UseServiceAccountCredentials, guard)
	if err != nil {
		return err
	}
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBackground()
	recorder, err := newRecorder(background, config, component)
	if err != nil {
		return err
	}

	// HTTP, before anything that can take long.
	d := &daemon{options: s, clients: c, scope: kit.NewScope(), health: serving.NewHealth(), watchdog: leaderelection.NewLeaderHealthzAdaptor(watchdogSlack)}
	if s.LeaderElection.LeaderElect {
		d.health.Add(serving.Process, d.watchdog)
	}
	stopHTTP, err := d.startHTTP(background)
	if err != nil {
		return err
	}
	defer stopHTTP()
	if err := waitForServer(ctx, config, log); err != nil {
		return stopped(ctx, err)
	}

	// Election, and with the lease the controllers.
	return stopped(ctx, lead(ctx, s, c, recorder, d.watchdog, d.runControllers))
}

// stopped takes an error that came of being told to stop as none.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// daemon is what one Run works with.
type daemon struct {
	options  *options.CMServer
	clients  *clients
	scope    *kit.Scope
	health   *serving.Health
	watchdog *leaderelection.HealthzAdaptor
}

// runControllers is what the leader does: it builds the controllers, starts them and the informers, and blocks until
// ctx has ended and every loop with it.
func (d *daemon) runControllers(ctx context.Context) error {
	log := klog.FromContext(ctx)
	builder, err := d.newContextBuilder(ctx)
	if err != nil {
		return err
	}
	l := newLoops(d.scope)
	err = StartControllers(ctx, d.options, NewControllerInitializers(d.options.Controllers), builder.contextFor, l)
	if err != nil && ctx.Err() == nil {
		return err
	}
	d.addHealthChecks()
	builder.cache.Start(ctx)
	log.Info("Started all controllers", "loops", len(d.scope.Controllers()))
	<-ctx.Done()
	log.Info("Stopping the controllers", "timeout", d.options.ControllerShutdownTimeout)
	if late := l.wait(d.options.ControllerShutdownTimeout); len(late) > 0 {
		log.Info("Some controllers have not stopped in time; nothing they do is written any more", "controllers", late)
	}
	// Events first, which would only be refused; then whatever still runs must not write once the lease is free.
	builder.stopEvents()
	d.clients.fence.close()
	return nil
}

// addHealthChecks adds a check for each controller, its further loops included.
func (d *daemon) addHealthChecks() {
	for _, c := range d.scope.Controllers() {
		d.health.Add(serving.Component, loopCheck{c})
	}
}

// contextBuilder makes the context of each controller around one cache.
type contextBuilder struct {
	daemon      *daemon
	cache       *cache.Cache
	metrics     *kit.Metrics
	connections map[string]*connection
	rootCA      []byte
	events      context.Context
	stopEvents  context.CancelFunc
}

func (d *daemon) newContextBuilder(ctx context.Context) (*contextBuilder, error) {
	informers, err := d.clients.forInformers()
	if err != nil {
		return nil, err
	}
	b := &contextBuilder{
		daemon:  d,
		cache:   cache.New(cache.Options{Client: informers, Slim: controllers.Slimming(), Log: klog.FromContext(ctx), Name: informerName()}),
		metrics: kit.NewMetrics(), connections: map[string]*connection{},
	}
	legacyregistry.MustRegister(b.metrics.Registerables()...)
	if err := rest.LoadTLSFiles(d.clients.root); err != nil {
		return nil, fmt.Errorf("read the certificates that the kubeconfig names: %w", err)
	}
	b.rootCA = d.clients.root.CAData
	b.events, b.stopEvents = context.WithCancel(context.WithoutCancel(ctx))
	return b, b.connect(ctx)
}

// informerName returns the name under which informers are measured. A process has one; a second Run in the same process,
// as tests have, is not measured.
func informerName() *toolscache.InformerName {
	name, err := toolscache.NewInformerName(component)
	if err != nil {
		return nil
	}
	return name
}

// connect makes the clients of all enabled controllers and fetches their tokens, all at once: one after another they
// would hold up the start.
func (b *contextBuilder) connect(ctx context.Context) error {
	start := time.Now()
	var warm []func(context.Context) error
	for _, d := range b.daemon.options.Controllers {
		if !b.daemon.options.IsEnabled(d) {
			continue
		}
		c, err := b.daemon.clients.forController(d)
		if err != nil {
			return err
		}
		b.connections[d.Name] = c
		if c.warm != nil {
			warm = append(warm, c.warm)
		}
	}
	err := kit.Batch(ctx, len(warm), len(warm), func(ctx context.Context, i int) error { return warm[i](ctx) })
	if err != nil && ctx.Err() == nil {
		// Not the end: each identity asks again when its controller first needs it.
		klog.FromContext(ctx).Error(err, "Some service account tokens could not be fetched yet")
	}
	if len(warm) > 0 {
		klog.FromContext(ctx).V(2).Info("Fetched service account tokens", "identities", len(warm), "took", time.Since(start))
	}
	return nil
}
