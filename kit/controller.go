package kit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"orrery/kit/cache"
	"orrery/kit/client"
)

// Controller is a completed control loop.
type Controller interface {
	// Name is unique in the process: that of the context, or "<context>/<loop>" for a further loop.
	Name() string
	// Descriptor is the name of the descriptor that the loop was built for or, if there is none, of its context.
	Descriptor() string
	// Run waits for the caches, works until ctx ends, and returns when no worker runs any more. It is called once;
	// another call does nothing.
	Run(ctx context.Context)
	// Unsynced says what the loop still waits for before its first reconcile, and where known why it has to.
	Unsynced() []string
	// Healthy returns what keeps the loop from doing its work, or nil.
	Healthy(now time.Time) error
	// State returns what the debug page shows.
	State(now time.Time) State
	// History returns the remembered reconciles of the keys that picks selects, newest first.
	History(picks func(key string) bool) []Entry
	// Sample returns the counts, at little cost, and begins a new span for the slowest reconcile.
	Sample() Sample
}

// Builder puts a controller together.
type Builder[K comparable] struct {
	cc      ControllerContext
	r       Reconciler[K]
	loop    string // empty for the only or first one
	queue   string
	workers int
	sources []Source[K]
	onSkip  func(stale schema.GroupResource)
}

// NewController begins a controller around a reconciler. Sources of another key type do not compile.
func NewController[K comparable](cc ControllerContext, r Reconciler[K]) *Builder[K] {
	return &Builder[K]{cc: cc, r: r, workers: 1}
}

// Loop names an additional loop of the same descriptor. Each Init may build at most one loop without a name.
func (b *Builder[K]) Loop(name string) *Builder[K] {
	b.loop = name
	return b
}

// Queue sets the queue's name in metrics; by default it is that of the controller.
func (b *Builder[K]) Queue(name string) *Builder[K] {
	b.queue = name
	return b
}

// Watch adds sources of keys.
func (b *Builder[K]) Watch(sources ...Source[K]) *Builder[K] {
	b.sources = append(b.sources, sources...)
	return b
}

// Workers sets how many keys are reconciled at once; the default is 1. One key is never reconciled twice at once.
func (b *Builder[K]) Workers(n int) *Builder[K] {
	b.workers = n
	return b
}

// OnSkip is called each time a reconcile is put off because the cache of a resource lags behind the controller's own
// writes.
func (b *Builder[K]) OnSkip(f func(stale schema.GroupResource)) *Builder[K] {
	b.onSkip = f
	return b
}

// Complete connects the sources and hands the controller to the process, which runs it. A controller whose context has
// no name is named after the kind of its For source, in lower case.
func (b *Builder[K]) Complete() error {
	name, err := b.check()
	if err != nil {
		return fmt.Errorf("controller %s: %w", name, err)
	}
	l, failures := newLanes[K](), workqueue.NewTypedItemExponentialFailureRateLimiter[K](backoffBase, backoffCap)
	c := &controller[K]{
		name: name, cc: b.cc, r: b.r, workers: b.workers, onSkip: b.onSkip,
		queue: newQueue(cmp.Or(b.queue, name), l, failures), failures: failures, lanes: l, running: map[K]time.Time{},
		log: b.cc.Log.WithValues("controller", name), phase: phaseBuilt, history: newHistory[K](),
	}
	if b.cc.own, err = b.keyKind(); err != nil {
		return fmt.Errorf("controller %s: %w", name, err)
	}
	c.kind = b.cc.own.Kind
	c.writes = newOwnWrites(b.cc.Cache, c.queue.Add)
	b.cc.Metrics.start(b.cc.Name, name, b.workers)
	for _, s := range b.sources {
		out := &sink[K]{}
		out.to.Store(&sinkTarget[K]{queue: c.queue, lanes: l, delay: b.cc.dryDelay(s.delay), urgent: s.urgent})
		src := attached[K]{name: s.name, run: s.run, sink: out}
		if s.attach != nil {
			synced, err := s.attach(b.cc, out)
			if err != nil {
				c.queue.ShutDown()
				return fmt.Errorf("controller %s: watch %s: %w", name, s.name, err)
			}
			src.synced = synced
		}
		c.sources = append(c.sources, src)
	}
	if err := b.cc.scope.add(c); err != nil {
		c.queue.ShutDown()
		return err
	}
	return nil
}

// check finds the controller's name and reports what keeps it from being built.
func (b *Builder[K]) check() (name string, err error) {
	if err := b.nameAfterKind(); err != nil {
		return "without a name", err
	}
	name = b.cc.Name
	if b.loop != "" {
		name += "/" + b.loop
	}
	switch {
	case b.cc.scope == nil:
		return name, errors.New("the context belongs to no process; see ControllerContext.In")
	case b.workers < 1:
		return name, fmt.Errorf("needs at least 1 worker, got %d", b.workers)
	}
	_, err = b.cc.needs.list()
	return name, err
}

// keyKind returns the kind of the objects whose keys are reconciled, where a source says so.
func (b *Builder[K]) keyKind() (none schema.GroupVersionKind, err error) {
	for _, s := range b.sources {
		if s.own != nil {
			return s.own(b.cc)
		}
	}
	return none, nil
}

// nameAfterKind names a context without a name after the kind of the builder's own objects.
func (b *Builder[K]) nameAfterKind() error {
	if b.cc.Name != "" {
		return nil
	}
	for _, s := range b.sources {
		if s.own == nil {
			continue
		}
		gvk, err := s.own(b.cc)
		if err != nil {
			return err
		}
		b.cc.Name = strings.ToLower(gvk.Kind)
		return nil
	}
	return errors.New("give its context a name, or watch a kind with For")
}

type attached[K comparable] struct {
	name   string
	synced func() bool // nil: nothing to wait for
	run    func(context.Context, *sink[K])
	sink   *sink[K]
}

type controller[K comparable] struct {
	name     string
	cc       ControllerContext
	r        Reconciler[K]
	workers  int
	queue    workqueue.TypedRateLimitingInterface[K]
	lanes    *lanes[K]
	failures workqueue.TypedRateLimiter[K] // the queue's own: it counts the failures of each key
	sources  []attached[K]
	writes   *ownWrites[K]
	kind     string // of the objects that the keys name; empty if they name no objects of one kind
	onSkip   func(stale schema.GroupResource)
	log      klog.Logger

	started atomic.Bool
	skips   atomic.Uint64

	mu      sync.Mutex // guards the fields below
	phase   phase
	since   time.Time // when phase began; zero while it is phaseBuilt
	running map[K]time.Time
	history history[K]
}

// Name implements Controller.
func (c *controller[K]) Name() string { return c.name }

// Descriptor implements Controller.
func (c *controller[K]) Descriptor() string { return c.cc.Name }

// Run implements Controller.
func (c *controller[K]) Run(ctx context.Context) {
	if c.started.Swap(true) {
		return
	}
	defer c.queue.ShutDown()
	c.enter(phaseSyncing)
	defer c.enter(phaseStopped)
	if !c.waitForSync(ctx) {
		return
	}
	c.enter(phaseRunning)
	ctx = klog.NewContext(ctx, c.log)
	calls, cancel := outlive(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range c.sources {
		if s.run != nil {
			wg.Go(func() { c.background(ctx, s) })
		}
	}
	for range c.workers {
		wg.Go(func() { c.work(ctx, calls) })
	}
	<-ctx.Done()
	c.queue.ShutDown()
	wg.Wait()
}

// background runs a source's own loop, again after a pause if it panics.
func (c *controller[K]) background(ctx context.Context, s attached[K]) {
	for ctx.Err() == nil {
		err := Guard(func() error { s.run(ctx, s.sink); return nil })
		if err == nil {
			return
		}
		c.cc.panicked(c.name, err, "source "+s.name, "")
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// waitForSync waits until the caches and sources have their first state, saying every ten seconds which have not. It
// reports false if ctx ended first.
func (c *controller[K]) waitForSync(ctx context.Context) bool {
	// A new leader starts to work the moment its caches are confirmed; after a while nobody is in that hurry.
	const soon, poll, later, say = time.Second, 5 * time.Millisecond, 100 * time.Millisecond, 10 * time.Second
	start := time.Now()
	next := start.Add(say)
	for {
		informers, _ := c.cc.needs.list()
		waiting := c.unsynced(informers)
		if len(waiting) == 0 {
			return true
		}
		now, pause := time.Now(), poll
		if !now.Before(next) {
			c.log.Info("Waiting for caches", "kinds", waiting)
			next = now.Add(say)
		}
		if now.Sub(start) > soon {
			pause = later
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// unsynced names what has not delivered its first state.
func (c *controller[K]) unsynced(informers []*cache.Informer) []string {
	var out []string
	for _, i := range informers {
		if !i.HasSynced() {
			out = append(out, i.String())
		}
	}
	for _, s := range c.sources {
		if s.synced != nil && !s.synced() {
			out = append(out, "source "+s.name)
		}
	}
	return out
}

// Unsynced implements Controller.
func (c *controller[K]) Unsynced() []string {
	informers, _ := c.cc.needs.list()
	out := c.unsynced(informers)
	for _, i := range informers {
		if at := slices.Index(out, i.String()); at >= 0 && i.LastError() != "" {
			out[at] += ": " + i.LastError()
		}
	}
	return out
}

// work runs keys until ctx ends. The calls of a reconcile are made under a context that ends later.
func (c *controller[K]) work(ctx, calls context.Context) {
	for {
		key, shutdown := c.queue.Get()
		if shutdown || ctx.Err() != nil {
			return
		}
		c.step(calls, key)
	}
}

// step runs one key and files the outcome.
func (c *controller[K]) step(ctx context.Context, key K) {
	defer c.queue.Done(key)
	start := time.Now()
	if lagging := c.writes.hold(key, start); lagging != nil {
		c.skipped(key, lagging.Resource().GroupResource())
		return
	}
	c.begin(key, start)
	var wrote client.WriteLog
	var res Result
	err := Guard(func() (err error) {
		res, err = c.r.Reconcile(client.WithWriteLog(ctx, &wrote), key)
		return err
	})
	end := time.Now()
	if c.cc.DryRun != nil {
		res, err = c.dryRun(key, wrote.TakeDry(), end, res, err)
	}
	writes := wrote.Take()
	c.writes.note(key, writes, end)
	out := classify(ctx, res, err)
	again := c.file(key, out, res, err)
	c.end(past[K]{
		key: key, outcome: out.index(), err: errorText(err), at: end.UnixNano(), took: int64(end.Sub(start)),
		again: int64(again), writes: uint16(min(len(writes), math.MaxUint16)),
	}, end)
}

// file decides what an outcome means for its key. It is the only place that knows the retry policy. It returns the time
// after which the key is reconciled again without a change; 0 means that no such reconcile is planned.
func (c *controller[K]) file(key K, out Outcome, res Result, err error) (again time.Duration) {
	switch out {
	case OutcomeDone, OutcomeCancelled:
		c.queue.Forget(key)
	case OutcomeLater:
		c.queue.Forget(key)
		c.queue.AddAfter(key, res.After)
		return res.After
	case OutcomeDropped:
		c.queue.Forget(key)
		c.log.V(4).Info("Dropped: the namespace is being deleted", "key", key)
	case OutcomeTerminal:
		c.queue.Forget(key)
		c.log.Error(err, "Reconcile failed for good; the next change is the next try", "key", key)
	case OutcomeConflict:
		again = c.retry(key, backoffBase, res)
		c.log.V(2).Info("Someone else wrote first; trying again", "key", key, "conflict", err)
	case OutcomePanicked:
		again = c.retry(key, backoffBase, res)
		c.cc.panicked(c.name, err, "reconcile", keyText(key))
	case OutcomeFailed:
		again = c.retry(key, firstRetry(err), res)
		c.log.Error(err, "Reconcile failed; trying again", "key", key, "failures", c.queue.NumRequeues(key))
	}
	return again
}

func (c *controller[K]) skipped(key K, stale schema.GroupResource) {
	c.skips.Add(1)
	c.cc.Metrics.skips.WithLabelValues(c.name).Inc()
	if c.onSkip != nil {
		c.onSkip(stale)
	}
	c.log.V(4).Info("Put off: the cache does not show the last write yet", "key", key, "resource", stale)
}
