package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/featuregate"
	compmetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/client"
	"orrery/kit/health"
)

const (
	syncPoll = 100 * time.Millisecond
	kindPoll = 2 * time.Second
)

// Context returns what a controller that needs the lease is built with. If name is empty the controller is named after the
// kind of its For source. A controller that is completed in this context runs with the manager.
func (m *Manager) Context(name string) kit.ControllerContext {
	return m.context(name, name, m.leadingClient, m.leadingEvents).In(kit.NewScopeFor(m.AddController))
}

// ContextWithoutLease is Context for a controller that runs in every process, whoever holds the lease.
func (m *Manager) ContextWithoutLease(name string) kit.ControllerContext {
	add := func(c kit.Controller) error { return m.addController(m.free, c) }
	return m.context(name, name, m.client, m.events).In(kit.NewScopeFor(add))
}

func (m *Manager) context(name, source string, c *client.Client, p *publisher) kit.ControllerContext {
	log := m.o.Log
	if name != "" {
		log = klog.LoggerWithName(log, name)
	}
	return kit.ControllerContext{
		Name: name, Client: c, Live: c.Live(), Cache: m.cache, Recorder: p.Recorder(m.o.Scheme, cmp.Or(source, m.o.Name)), Log: log,
		Gates: m.o.Gates, Discovery: m.discovery, Available: m.available, RootCA: m.rootCA, Metrics: m.metrics, Register: m.register,
	}
}

func (m *Manager) available(gvr schema.GroupVersionResource) bool {
	return client.ServesResource(m.discovery, gvr)
}

// register publishes metrics. A process publishes one set of each; those of a second manager, as in tests, are left out.
func (m *Manager) register(metrics ...compmetrics.Registerable) {
	for _, r := range metrics {
		if err := legacyregistry.Register(r); err != nil {
			m.o.Log.V(4).Info("Metric not published", "metric", r.FQName(), "err", err)
		}
	}
}

// AddController runs, with the lease, a controller that has been completed in another context, and adds its health check.
func (m *Manager) AddController(c kit.Controller) error { return m.addController(m.leading, c) }

func (m *Manager) addController(g *group, c kit.Controller) error {
	m.mu.Lock()
	taken := slices.ContainsFunc(m.controllers, func(o kit.Controller) bool { return o.Name() == c.Name() })
	if !taken {
		m.controllers = append(m.controllers, c)
	}
	m.mu.Unlock()
	if taken {
		return fmt.Errorf("controller %s: there is one of this name already", c.Name())
	}
	m.o.Checks.Add(health.Component, loopCheck{c})
	return g.add(&loop{c, m.o.SyncTimeout})
}

// Controllers returns the controllers added so far, in that order.
func (m *Manager) Controllers() []kit.Controller {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.controllers)
}

// loopCheck is the health check of one control loop.
type loopCheck struct{ kit.Controller }

// Check implements health.Check.
func (c loopCheck) Check(*http.Request) error { return c.Healthy(time.Now()) }

// loop runs a controller. It fails if the controller is not ready to work in time.
type loop struct {
	kit.Controller
	timeout time.Duration // negative: none
}

// Run implements Runnable.
func (l *loop) Run(ctx context.Context) error {
	if l.timeout < 0 {
		l.Controller.Run(ctx)
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if err := l.awaitSync(ctx); err != nil {
			cancel(err)
		}
	}()
	l.Controller.Run(ctx)
	err := context.Cause(ctx)
	cancel(nil)
	<-watched
	if errors.Is(err, context.Canceled) {
		return nil // an ordinary end
	}
	return err
}

// awaitSync returns nil once the controller has what it needs to work, or ctx has ended.
func (l *loop) awaitSync(ctx context.Context) error {
	start := time.Now()
	for {
		missing := l.Unsynced()
		switch {
		case len(missing) == 0:
			return nil
		case time.Since(start) >= l.timeout:
			return fmt.Errorf("not ready within %s, still waiting for %s", l.timeout, strings.Join(missing, "; "))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(syncPoll):
		}
	}
}

// Name names the runnable.
func (l *loop) Name() string { return "controller " + l.Controller.Name() }

// AddDescriptor adds a controller that is built when the manager starts or, if the server lacks one of its Kinds then, as
// soon as the server has them all.
func (m *Manager) AddDescriptor(d kit.Descriptor) error {
	if d.Name == "" || d.Init == nil {
		return fmt.Errorf("controller %q: its descriptor needs Name and Init", d.Name)
	}
	if d.Validate != nil {
		for _, err := range d.Validate() {
			return fmt.Errorf("controller %s: %w", d.Name, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started.Load() {
		return fmt.Errorf("controller %s: the manager has started", d.Name)
	}
	m.descriptors = append(m.descriptors, d)
	return nil
}

// build builds the controllers of all descriptors. Those whose kinds are missing are built later.
func (m *Manager) build(ctx context.Context) error {
	for _, d := range m.descriptors {
		if off := slices.IndexFunc(d.FeatureGates, func(f featuregate.Feature) bool { return !m.o.Gates.Enabled(f) }); off >= 0 {
			m.o.Log.Info("Controller is disabled", "controller", d.Name, "featureGate", d.FeatureGates[off])
			continue
		}
		if missing := MissingKinds(m.discovery, d.Kinds); len(missing) > 0 {
			late := Func(d.Name, func(ctx context.Context) error {
				return WaitForKinds(ctx, m.o.Log, m.discovery, d, func() error { return m.buildOne(d) })
			})
			if err := m.leading.add(late); err != nil {
				return err
			}
			continue
		}
		if err := m.buildOne(d); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (m *Manager) buildOne(d kit.Descriptor) error {
	if len(d.Kinds) > 0 {
		meta.MaybeResetRESTMapper(m.o.Mapper)
	}
	cc := m.context(d.Name, cmp.Or(d.EventSource, d.Name), m.leadingClient, m.leadingEvents)
	started, err := d.Init.Build(cc, m.AddController)
	if err == nil && !started {
		m.o.Log.Info("Controller is skipped", "controller", d.Name)
	}
	return err
}
