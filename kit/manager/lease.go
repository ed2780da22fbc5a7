package manager

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"orrery/kit"
	"orrery/kit/client"
	"orrery/kit/events"
	"orrery/kit/health"
	"orrery/kit/leader"
)

// Lease is an additional lease of a process, with what runs only while it is held. It is a Runnable that needs the main
// lease: added to the manager, it waits for the additional one. Losing either ends the process. On a stop, what needs the
// additional lease stops together with the rest, and it is released before the main one.
type Lease struct {
	m     *Manager
	id    string
	begin func(context.Context) error

	// The writes of what needs the lease pass through its fence.
	client *client.Client
	events *publisher

	fence    *leader.Fence
	election *leader.Election
	parts    *group
}

// NewLease prepares an additional lease of the given name, in the namespace and with the timings of the main one. Once it
// is held, begin is called to build what needs it. Nothing happens before the Lease has been added to the manager.
func (m *Manager) NewLease(id string, begin func(context.Context) error) (*Lease, error) {
	if m.election == nil {
		return nil, errors.New("an additional lease needs an election for the main one")
	}
	l := &Lease{m: m, id: id, begin: begin, fence: leader.NewFence(m.o.Election.LeaseDuration), parts: &group{failed: m.failed}}
	fenced := rest.CopyConfig(m.config)
	fenced.Wrap(l.fence.Wrap)
	var err error
	if l.client, l.events, err = m.identity(fenced, client.Options{Scheme: m.o.Scheme, Mapper: m.o.Mapper}); err != nil {
		return nil, fmt.Errorf("lease %s: %w", id, err)
	}
	var dog health.Check
	if l.election, dog, err = m.newElection(id, l.fence, nil); err != nil {
		return nil, err
	}
	m.o.Checks.Add(health.Process, health.Func("leaderElection-"+id, dog.Check))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases = append(m.leases, l)
	return l, nil
}

// Name names the runnable.
func (l *Lease) Name() string { return "lease " + l.id }

// Fence blocks the writes of what needs this lease while it is not held.
func (l *Lease) Fence() *leader.Fence { return l.fence }

// Discovery is the manager's.
func (l *Lease) Discovery() discovery.DiscoveryInterface { return l.m.discovery }

// Context is the manager's Context for a controller that needs this lease.
func (l *Lease) Context(name string) kit.ControllerContext {
	return l.m.context(name, name, l.client, l.events).In(kit.NewScopeFor(l.AddController))
}

// PublisherWithLease returns a publisher of events that uses another configuration, and ends when what needs this lease has
// stopped.
func (l *Lease) PublisherWithLease(config *rest.Config) (*events.Publisher, error) {
	return l.events.under(config)
}

// AddController runs, with this lease, a controller that has been completed in another context, and adds its health check.
func (l *Lease) AddController(c kit.Controller) error { return l.m.addController(l.parts, c) }

// Add runs a part of the process with this lease.
func (l *Lease) Add(r Runnable) error { return l.parts.add(r) }

// Leadership returns who runs what needs this lease, as far as this process knows.
func (l *Lease) Leadership() Leadership {
	out := Leadership{Election: true, Lease: l.m.o.Election.Namespace + "/" + l.id}
	out.Holder, out.Leading = l.election.Holder()
	return out
}

// Run implements Runnable.
func (l *Lease) Run(ctx context.Context) error { return l.election.Run(ctx, l.lead) }

// lead runs what needs the lease until ctx ends and it has stopped.
func (l *Lease) lead(ctx context.Context) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	l.m.cache.Confirm(ctx) // what is cached may be older than the last write of the previous holder
	l.parts.start(ctx)
	<-ctx.Done()
	limit, cancel := context.WithDeadline(context.WithoutCancel(ctx), l.m.stopBy())
	defer cancel()
	l.m.noteLate(l.parts.stop(limit))
	l.events.close(limit)
	l.fence.Close()
	return nil
}
