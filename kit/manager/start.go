package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"orrery/kit/leader"
)

// lastMoment is how long a stage may take to stop if its turn comes after the shutdown timeout.
const lastMoment = 2 * time.Second

// StragglersError says what had not stopped when the shutdown timeout had passed. Nothing that needs the lease writes any
// more by then.
type StragglersError struct {
	Names   []string
	Timeout time.Duration
	Cause   error // why the process ended; nil if it was told to stop
}

// Error says why the process ended, and names what did not stop.
func (e *StragglersError) Error() string {
	text := fmt.Sprintf("not stopped within %s: %s", e.Timeout, strings.Join(e.Names, ", "))
	if e.Cause != nil {
		return e.Cause.Error() + "; " + text
	}
	return text
}

// Unwrap returns why the process ended.
func (e *StragglersError) Unwrap() error { return e.Cause }

// Start runs the process until ctx ends or something fails, and returns when everything has stopped: nil after an
// orderly end, else the first error, or a StragglersError if the timeout has passed. It may be called once.
func (m *Manager) Start(ctx context.Context) error {
	if m.started.Swap(true) {
		return fmt.Errorf("manager %s: started twice", m.o.Name)
	}
	defer m.Close()
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, m.o.Log))
	defer cancel()
	defer context.AfterFunc(m.failure, cancel)()

	err := m.run(ctx)
	var timeout time.Duration
	if err != nil && (ctx.Err() == nil || errors.Is(err, leader.ErrLost)) {
		m.fail(err)
	}
	cancel()
	if !errors.Is(err, leader.ErrLost) {
		timeout = time.Until(m.stopBy())
	}
	stragglers := m.stopRest(timeout)
	if len(stragglers) > 0 {
		m.o.Log.Info("Some parts of the process have not stopped in time", "parts", stragglers)
	}
	first := context.Cause(m.failure) // nil where nothing failed
	if stragglers = append(m.lateControllers(), stragglers...); len(stragglers) > 0 {
		return &StragglersError{stragglers, m.o.ShutdownTimeout, first}
	}
	return first
}

// run goes through the stages and returns when the last one has ended.
func (m *Manager) run(ctx context.Context) error {
	m.servers.start(ctx)
	for _, c := range m.conditions {
		if err := c(ctx); err != nil {
			return err
		}
	}
	if err := m.build(ctx); err != nil {
		return err
	}
	m.caches.start(ctx)
	if err := m.waitForCaches(ctx); err != nil {
		return err
	}
	m.free.start(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if m.election == nil {
		err := m.lead(ctx)
		m.fence.Close()
		return err
	}
	return m.election.Run(ctx, m.lead)
}

// lead runs what needs the lease until ctx ends and it has stopped. When it returns the lease may be released.
func (m *Manager) lead(ctx context.Context) error {
	if m.election != nil {
		m.cache.Confirm(ctx) // what is cached may be older than the last write of the previous leader
	}
	m.leading.start(ctx)
	<-ctx.Done()
	m.o.Log.Info("Stopping the controllers", "timeout", m.o.ShutdownTimeout)
	limit, cancel := context.WithDeadline(context.WithoutCancel(ctx), m.stopBy())
	defer cancel()
	m.noteLate(m.leading.stop(limit))
	// Send events first, as the fence would refuse them. Whatever still runs must not write once the lease is free.
	m.leadingEvents.close(limit)
	m.fence.Close()
	return nil
}

// noteLate remembers what needed a lease and did not stop in time.
func (m *Manager) noteLate(late []string) {
	if len(late) == 0 {
		return
	}
	m.o.Log.Info("Some controllers have not stopped in time; nothing they do is written any more", "controllers", late)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late = append(m.late, late...)
}

// lateControllers returns what needed the lease and had not stopped in time.
func (m *Manager) lateControllers() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.late)
}

// stopRest ends the stages that need no lease, the last one first, and returns what had not ended in time. What needs the
// lease has ended by now, or is not waited for because the lease is lost.
func (m *Manager) stopRest(timeout time.Duration) (stragglers []string) {
	m.leading.cancel()
	by := time.Now().Add(timeout)
	for _, g := range []*group{m.free, m.caches, m.servers} {
		limit, cancel := context.WithTimeout(m.life, max(lastMoment, time.Until(by)))
		stragglers = append(stragglers, g.stop(limit)...)
		cancel()
	}
	return stragglers
}

// waitForCaches returns once all informers are filled that have been asked for so far, or with an error that names the
// kinds that are not.
func (m *Manager) waitForCaches(ctx context.Context) error {
	if m.o.Cache.StartedByOthers {
		return nil
	}
	const poll = 10 * time.Millisecond
	start := time.Now()
	for {
		missing := m.unfilled()
		switch {
		case len(missing) == 0:
			return nil
		case m.o.SyncTimeout >= 0 && time.Since(start) >= m.o.SyncTimeout:
			return fmt.Errorf("caches not filled within %s: %s", m.o.SyncTimeout, strings.Join(missing, "; "))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(poll):
		}
	}
}

// unfilled names the informers that have not delivered their first state, and why where that is known.
func (m *Manager) unfilled() []string {
	var out []string
	for _, i := range m.cache.Informers() {
		if i.HasSynced() {
			continue
		}
		name := i.String()
		if reason := i.LastError(); reason != "" {
			name += ": " + reason
		}
		out = append(out, name)
	}
	return out
}
