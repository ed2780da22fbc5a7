package app

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/manager"
)

// addControllers has the manager run the controllers with the lease. A warm standby builds them before, which says which
// kinds they read, and keeps the caches of these filled meanwhile; the controllers hear nothing of it.
func (d *daemon) addControllers() error {
	m := d.manager
	b := &contextBuilder{daemon: d, connections: map[string]*connection{}}
	if !d.options.WarmStandby || !d.options.LeaderElection.LeaderElect {
		return m.Add(manager.Func("controllers", func(ctx context.Context) error {
			if err := b.build(ctx, b.fetchTokens); err != nil || ctx.Err() != nil {
				return err
			}
			return d.startCache(ctx)
		}))
	}
	m.Before(func(ctx context.Context) error {
		klog.FromContext(ctx).Info("Warm standby: the controllers are made ready now, and work with the lease")
		return b.build(ctx, func(context.Context) {})
	})
	err := m.Add(manager.WithoutLease(manager.Func("warm caches", func(ctx context.Context) error {
		m.Cache().Warm(ctx)
		<-ctx.Done()
		m.Cache().Wait()
		return nil
	})))
	if err != nil {
		return err
	}
	return m.Add(manager.Func("controllers", func(ctx context.Context) error {
		// Each controller fetches its token when it first needs one; the others need not wait for them all.
		err := d.startCache(ctx)
		b.fetchTokens(ctx)
		return err
	}))
}

// startCache starts the informers, of which the controllers hear from then on.
func (d *daemon) startCache(ctx context.Context) error {
	d.built.Store(true)
	d.manager.Cache().Start(ctx)
	klog.FromContext(ctx).Info("Started all controllers", "loops", len(d.manager.Controllers()))
	return nil
}

// contextBuilder makes the context of each controller.
type contextBuilder struct {
	daemon      *daemon
	connections map[string]*connection
}

// build makes the clients of all enabled controllers and builds these. In between it calls connected.
func (b *contextBuilder) build(ctx context.Context, connected func(context.Context)) error {
	o := b.daemon.options
	for _, d := range o.Controllers {
		if !o.IsEnabled(d) {
			continue
		}
		c, err := b.daemon.clients.forController(d)
		if err != nil {
			return fmt.Errorf("client of %s: %w", d.Name, err)
		}
		b.connections[d.Name] = c
	}
	connected(ctx)
	err := StartControllers(ctx, o, NewControllerInitializers(o.Controllers), b.contextFor, b.daemon.manager)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// fetchTokens fetches the tokens of all controllers at once: one after another they would hold up the start.
func (b *contextBuilder) fetchTokens(ctx context.Context) {
	start := time.Now()
	var warm []func(context.Context) error
	for _, d := range b.daemon.options.Controllers {
		if c := b.connections[d.Name]; c != nil && c.warm != nil {
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
}
