package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"orrery/kit"
)

// Runnable is a part of a process. Run works until ctx ends and returns only when everything that it started has ended.
// It may return nil earlier if it has nothing more to do; an error makes the whole process shut down.
//
// A Runnable needs the lease unless it has a method NeedsLease() bool that says otherwise. It is named after its method
// Name() string, or else its Go type.
type Runnable interface {
	Run(ctx context.Context) error
}

// Func turns a function into a Runnable that needs the lease.
func Func(name string, run func(context.Context) error) Runnable { return function{name, run} }

type function struct {
	name string
	run  func(context.Context) error
}

// Name names the Runnable.
func (f function) Name() string { return f.name }

// Run implements Runnable.
func (f function) Run(ctx context.Context) error { return f.run(ctx) }

// WithoutLease turns a Runnable into one that needs no lease.
func WithoutLease(r Runnable) Runnable { return leaseFree{r} }

type leaseFree struct{ Runnable }

// Name names the Runnable.
func (l leaseFree) Name() string { return nameOf(l.Runnable) }

// NeedsLease says no.
func (l leaseFree) NeedsLease() bool { return false }

func nameOf(r Runnable) string {
	if n, ok := r.(interface{ Name() string }); ok {
		return n.Name()
	}
	return fmt.Sprintf("%T", r)
}

func needsLease(r Runnable) bool {
	n, ok := r.(interface{ NeedsLease() bool })
	return !ok || n.NeedsLease()
}

// group runs the parts of one stage.
type group struct {
	failed func(error) // called with each error of a part

	mu    sync.Mutex // guards the fields below
	ctx   context.Context
	end   context.CancelFunc // nil before the start
	ended bool
	parts []*part
}

// part is one Runnable of a group.
type part struct {
	Runnable
	done chan struct{} // closed when it has ended; nil while it has not been started
}

// add adds a part, and starts it if the group runs already.
func (g *group) add(r Runnable) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return fmt.Errorf("add %s: the process is stopping", nameOf(r))
	}
	p := &part{Runnable: r}
	g.parts = append(g.parts, p)
	if g.ctx != nil {
		g.launch(p)
	}
	return nil
}

// start runs the parts, until stop, under the values of ctx.
func (g *group) start(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return
	}
	g.ctx, g.end = context.WithCancel(context.WithoutCancel(ctx))
	for _, p := range g.parts {
		g.launch(p)
	}
}

// launch starts a part. g.mu is held.
func (g *group) launch(p *part) {
	ctx := g.ctx
	p.done = make(chan struct{})
	go func() {
		defer close(p.done)
		err := kit.Guard(func() error { return p.Run(ctx) })
		if err != nil && !(ctx.Err() != nil && errors.Is(err, context.Canceled)) {
			g.failed(fmt.Errorf("%s: %w", nameOf(p.Runnable), err))
		}
	}()
}

// cancel tells the parts to end.
func (g *group) cancel() []*part {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	if g.end != nil {
		g.end()
	}
	return g.parts
}

// stop ends the parts and waits for them until limit ends. It returns the names of those that still run.
func (g *group) stop(limit context.Context) (stragglers []string) {
	for _, p := range g.cancel() {
		if p.done == nil {
			continue
		}
		select {
		case <-p.done:
			continue
		case <-limit.Done():
		}
		select {
		case <-p.done:
		default:
			stragglers = append(stragglers, nameOf(p.Runnable))
		}
	}
	return stragglers
}
