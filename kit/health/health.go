package health

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/component-base/metrics/prometheus/slis"
	"k8s.io/klog/v2"

	"orrery/kit"
)

// Check is one health check. Check returns nil if all is well. It may be called at any time; that of a Process check also by
// several requests at once.
type Check interface {
	Name() string
	Check(*http.Request) error
}

// Scope says what a failing check is about, and so which endpoints it decides.
type Scope int

const (
	// Process checks fail when only a restart of the process can help.
	Process Scope = iota
	// Component checks are about one controller; they make the daemon unready, never dead.
	Component
)

// componentLimit is how long all Component checks of a request may take together.
const componentLimit = time.Second

// Checks holds the health checks of a process and serves /healthz, /livez and /readyz. Checks may be added while it serves.
type Checks struct {
	mu     sync.RWMutex // guards probes
	probes []*probe
}

// New returns Checks with the check "ping", which passes whenever the process can answer at all.
func New() *Checks {
	h := &Checks{}
	h.Add(Process, Func("ping", func(*http.Request) error { return nil }))
	return h
}

// Add adds checks, which are listed in the order in which they were added. A check replaces an earlier one of the same name.
func (h *Checks) Add(scope Scope, checks ...Check) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, check := range checks {
		p := &probe{scope: scope, check: check}
		if i := slices.IndexFunc(h.probes, func(old *probe) bool { return old.check.Name() == check.Name() }); i >= 0 {
			h.probes[i] = p
			continue
		}
		h.probes = append(h.probes, p)
	}
}

func (h *Checks) all() []*probe {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Clone(h.probes)
}

// Func returns a Check that calls a function.
func Func(name string, check func(*http.Request) error) Check { return named{name, check} }

type named struct {
	name  string
	check func(*http.Request) error
}

func (c named) Name() string                  { return c.name }
func (c named) Check(req *http.Request) error { return c.check(req) }

// probe runs one check.
type probe struct {
	scope Scope
	check Check

	mu      sync.Mutex // guards running
	running *outcome
}

// outcome is that of one call of a check; err may be read once done is closed.
type outcome struct {
	done  chan struct{}
	since time.Time
	err   error
}

// start runs the check in the background. If an earlier call is still running, start returns that one's outcome instead,
// so that a check that hangs costs one goroutine, and not one per request.
func (p *probe) start(req *http.Request) *outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil && !p.running.ended() {
		return p.running
	}
	// The call may outlive the request.
	req = req.WithContext(context.WithoutCancel(req.Context()))
	o := &outcome{done: make(chan struct{}), since: time.Now()}
	p.running = o
	go func() {
		defer close(o.done)
		o.err = runCheck(p.check, req)
	}()
	return o
}

func (o *outcome) ended() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// wait returns the error of the check, or one that says that the check missed the deadline.
func (o *outcome) wait(deadline <-chan struct{}) error {
	select {
	case <-o.done:
		return o.err
	case <-deadline:
		if o.ended() {
			return o.err
		}
		return fmt.Errorf("no answer for %s", time.Since(o.since).Round(time.Millisecond))
	}
}

// runCheck calls the check. A panic is a failure.
func runCheck(check Check, req *http.Request) error {
	err := kit.Guard(func() error { return check.Check(req) })
	if p, ok := errors.AsType[*kit.PanicError](err); ok {
		klog.ErrorS(nil, "Panic in a health check", "check", check.Name(), "panic", p.Value, "stack", string(p.Stack))
	}
	return err
}

// runAll runs the checks for an endpoint and returns their errors in the same order.
// Process checks run in the caller's goroutine: if one of them hangs, so should the liveness probe.
func runAll(probes []*probe, req *http.Request, endpoint string) []error {
	limit, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), componentLimit)
	defer cancel()
	outcomes := make([]*outcome, len(probes))
	for i, p := range probes {
		if p.scope == Component {
			outcomes[i] = p.start(req)
		}
	}
	errs := make([]error, len(probes))
	for i, p := range probes {
		if outcomes[i] != nil {
			errs[i] = outcomes[i].wait(limit.Done())
		} else {
			errs[i] = runCheck(p.check, req)
		}
		status := slis.Success
		if errs[i] != nil {
			status = slis.Error
		}
		// The error result is always nil.
		_ = slis.ObserveHealthcheck(req.Context(), p.check.Name(), endpoint, status)
	}
	return errs
}
