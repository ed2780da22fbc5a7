package app

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/events"
	"orrery/kit/leader"
	"orrery/kit/manager"
)

// addControllers makes the manager run the controllers with the lease. A warm standby builds them earlier, so that it
// knows which kinds they read, and keeps the caches of these kinds filled; the controllers are not told of changes yet.
// Controllers that migrate are built and run with the migration lease, for which the process applies once all others have
// been started.
func (d *daemon) addControllers() error {
	m := d.manager
	stay, err := d.split()
	if err != nil {
		return err
	}
	b := d.builder(m, stay)
	if !d.options.WarmStandby || !d.options.LeaderElection.LeaderElect {
		return m.Add(manager.Func("controllers", func(ctx context.Context) error {
			if err := b.build(ctx, b.fetchTokens); err != nil || ctx.Err() != nil {
				return err
			}
			return d.startCache(ctx)
		}))
	}
	m.Before(func(ctx context.Context) error {
		klog.FromContext(ctx).Info("Warm standby: building the controllers now; they work once this process holds the lease")
		return b.build(ctx, func(context.Context) {})
	})
	err = m.Add(manager.WithoutLease(manager.Func("warm caches", func(ctx context.Context) error {
		m.Cache().Warm(ctx)
		<-ctx.Done()
		m.Cache().Wait()
		return nil
	})))
	if err != nil {
		return err
	}
	return m.Add(manager.Func("controllers", func(ctx context.Context) error {
		// The cache need not wait for the tokens: each controller fetches its own when it first needs one.
		err := d.startCache(ctx)
		b.fetchTokens(ctx)
		return err
	}))
}

// split prepares the migration lease for the controllers that migrate, and returns the others.
func (d *daemon) split() (stay []kit.Descriptor, err error) {
	plan := d.options.Migration()
	// A dry run does not compete for the leases of real controller managers.
	if plan == nil || d.options.DryRun {
		return d.options.Controllers, nil
	}
	var move []kit.Descriptor
	for _, c := range d.options.Controllers {
		if plan.Includes(c.Name) {
			move = append(move, c)
		} else {
			stay = append(stay, c)
		}
	}
	d.migration, err = d.manager.NewLease(plan.LeaseName, func(ctx context.Context) error {
		b := d.builder(d.migration, move)
		if err := b.build(ctx, b.fetchTokens); err != nil || ctx.Err() != nil {
			return err
		}
		d.migrated.Store(true)
		klog.FromContext(ctx).Info("Started the controllers that migrate", "lease", plan.LeaseName, "controllers", len(move))
		return nil
	})
	return stay, err
}

// startCache starts the informers and, with them, the work of the controllers.
func (d *daemon) startCache(ctx context.Context) error {
	d.built.Store(true)
	d.manager.Cache().Start(ctx)
	klog.FromContext(ctx).Info("Started all controllers", "loops", len(d.manager.Controllers()))
	if d.migration == nil || ctx.Err() != nil {
		return nil
	}
	return d.manager.Add(d.migration)
}

// tenure is the lease that controllers run under: the manager's own or the migration lease.
type tenure interface {
	Fence() *leader.Fence
	Discovery() discovery.DiscoveryInterface
	Context(name string) kit.ControllerContext
	PublisherWithLease(config *rest.Config) (*events.Publisher, error)
	AddController(c kit.Controller) error
	Add(r manager.Runnable) error
}

// contextBuilder makes the context of each controller of a tenure.
type contextBuilder struct {
	daemon      *daemon
	tenure      tenure
	controllers []kit.Descriptor
	connections map[string]*connection
}

func (d *daemon) builder(t tenure, controllers []kit.Descriptor) *contextBuilder {
	return &contextBuilder{daemon: d, tenure: t, controllers: controllers, connections: map[string]*connection{}}
}

// build makes the clients of all enabled controllers, calls connected, and builds the controllers.
func (b *contextBuilder) build(ctx context.Context, connected func(context.Context)) error {
	o := b.daemon.options
	for _, d := range b.controllers {
		if !o.IsEnabled(d) {
			continue
		}
		c, err := b.daemon.clients.forController(d, b.tenure.Fence())
		if err != nil {
			return fmt.Errorf("client of %s: %w", d.Name, err)
		}
		b.connections[d.Name] = c
	}
	connected(ctx)
	err := StartControllers(ctx, o, NewControllerInitializers(b.controllers), b.contextFor, b.tenure)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// fetchTokens fetches the tokens of all controllers at once: one after another they would hold up the start.
func (b *contextBuilder) fetchTokens(ctx context.Context) {
	start := time.Now()
	var warm []func(context.Context) error
	for _, d := range b.controllers {
		if c := b.connections[d.Name]; c != nil && c.warm != nil {
			warm = append(warm, c.warm)
		}
	}
	err := kit.Batch(ctx, len(warm), len(warm), func(ctx context.Context, i int) error { return warm[i](ctx) })
	if err != nil && ctx.Err() == nil {
		// Not fatal: each identity tries again when its controller first needs a token.
		klog.FromContext(ctx).Error(err, "Some service account tokens could not be fetched yet")
	}
	if len(warm) > 0 {
		klog.FromContext(ctx).V(2).Info("Fetched service account tokens", "identities", len(warm), "took", time.Since(start))
	}
}
