package kit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"orrery/kit/cache"
)

// Bounds of health: beyond them a loop is reported as degraded.
const (
	syncLimit    = time.Minute      // caches not filled, or not kept up to date
	runLimit     = 10 * time.Minute // one reconcile still running
	stallLimit   = 2 * time.Minute  // keys wait and none is taken up
	failureLimit = 5 * time.Minute  // every reconcile fails
)

type phase string

const (
	phaseBuilt   phase = "built"
	phaseSyncing phase = "waiting for caches"
	phaseRunning phase = "running"
	phaseStopped phase = "stopped"
)

// Entry is one finished reconcile.
type Entry struct {
	Key     string        `json:"key"`
	Outcome Outcome       `json:"outcome"`
	Error   string        `json:"error,omitempty"` // its first 512 bytes
	At      time.Time     `json:"at"`
	Took    time.Duration `json:"tookNanoseconds"`
	Writes  int           `json:"writes"`        // those that the server did not refuse
	Next    time.Time     `json:"next,omitzero"` // when the key was to be reconciled again without a change
}

// Running is a reconcile under way.
type Running struct {
	Key string        `json:"key"`
	Age time.Duration `json:"ageNanoseconds"`
}

// SourceState is whether a source or cache has delivered its first state.
type SourceState struct {
	Name   string `json:"name"`
	Synced bool   `json:"synced"`
	Error  string `json:"error,omitempty"`
}

// State is what a loop is doing.
type State struct {
	Name         string             `json:"name"`
	Controller   string             `json:"controller"`
	Kind         string             `json:"kind,omitempty"` // of the objects that its keys name, where they name objects of one kind
	Phase        string             `json:"phase"`
	Since        time.Time          `json:"since,omitzero"` // when the phase began
	Workers      int                `json:"workers"`
	QueueLength  int                `json:"queueLength"`
	Oldest       time.Duration      `json:"oldestNanoseconds"` // how long the longest-waiting key of the queue has waited
	Running      []Running          `json:"running"`
	Totals       map[Outcome]uint64 `json:"totals"`
	Retries      uint64             `json:"retries"` // reconciles that were to be tried again
	Writes       uint64             `json:"writes"`
	Skips        uint64             `json:"staleSkips"` // put off because the cache did not show the loop's own writes yet
	LastSuccess  time.Time          `json:"lastSuccess,omitzero"`
	LastError    string             `json:"lastError,omitempty"`
	FailingSince time.Time          `json:"failingSince,omitzero"` // the first failure since the last success
	Degraded     string             `json:"degraded,omitempty"`
	Sources      []SourceState      `json:"sources"`
	Panics       []Panic            `json:"panics,omitempty"` // the last ones, newest first
	Last         []Entry            `json:"last"`
}

// Sample is what a loop has counted since it was built.
type Sample struct {
	Reconciles, Failures, Retries, Skips, Writes uint64
	Took                                         time.Duration // of all reconciles together
	Slowest                                      time.Duration // the longest since the last sample
	Queue, Running                               int
}

func (c *controller[K]) enter(p phase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phase, c.since = p, time.Now()
}

func (c *controller[K]) begin(key K, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[key] = now
	c.cc.Metrics.active.WithLabelValues(c.name).Set(float64(len(c.running)))
}

func (c *controller[K]) end(p past[K], end time.Time) {
	c.cc.Metrics.reconciles.WithLabelValues(c.name, string(outcomes[p.outcome])).Inc()
	c.cc.Metrics.durations.WithLabelValues(c.name).Observe(time.Duration(p.took).Seconds())
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, p.key)
	c.cc.Metrics.active.WithLabelValues(c.name).Set(float64(len(c.running)))
	c.history.add(p, end)
}

// Sample implements Controller.
func (c *controller[K]) Sample() Sample {
	s := Sample{Queue: c.queue.Len(), Skips: c.skips.Load()}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.history
	for i, n := range h.totals {
		s.Reconciles += n
		switch outcomes[i] {
		case OutcomeFailed, OutcomePanicked, OutcomeTerminal:
			s.Failures += n
		}
	}
	s.Retries, s.Writes, s.Took, s.Slowest, s.Running = h.retries(), h.writes, h.took, h.slowest, len(c.running)
	h.slowest = 0
	return s
}

// retries counts the reconciles whose key was to come again although nothing had asked for it.
func (h *history[K]) retries() uint64 {
	return h.totals[OutcomeFailed.index()] + h.totals[OutcomePanicked.index()] + h.totals[OutcomeConflict.index()]
}

// History implements Controller.
func (c *controller[K]) History(picks func(key string) bool) []Entry {
	c.mu.Lock()
	h := history[K]{recent: c.history.recent, trouble: c.history.trouble}
	h.recent.buf, h.trouble.buf = slices.Clone(h.recent.buf), slices.Clone(h.trouble.buf)
	c.mu.Unlock()
	return h.matching(picks)
}

// Healthy implements Controller.
func (c *controller[K]) Healthy(now time.Time) error {
	if !c.started.Load() {
		return nil // its sources are not asked before it runs: some measure time from when they are first asked
	}
	informers, _ := c.cc.needs.list()
	waiting := c.unsynced(informers)
	queued := c.queue.Len()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.phase == phaseStopped || c.phase == phaseBuilt:
		return nil
	case len(waiting) > 0 && now.Sub(c.since) > syncLimit:
		return fmt.Errorf("waiting for %s since %s%s", strings.Join(waiting, ", "), c.since.Format(time.RFC3339), reasons(informers))
	}
	for _, i := range informers {
		if i.Missing() {
			return fmt.Errorf("waiting for %s, which the API server does not have", i)
		}
		if since, reason := i.Failing(); reason != "" && now.Sub(since) > syncLimit {
			return fmt.Errorf("the cache of %s has not been kept up to date since %s: %s", i, since.Format(time.RFC3339), reason)
		}
	}
	for key, began := range c.running {
		if now.Sub(began) > runLimit {
			return fmt.Errorf("reconcile of %s has been running for %s", keyText(key), now.Sub(began).Round(time.Second))
		}
	}
	progress := c.lanes.lastMove()
	if progress.Before(c.since) {
		progress = c.since
	}
	if c.phase == phaseRunning && queued > 0 && now.Sub(progress) > stallLimit {
		return fmt.Errorf("%d keys wait and none has been taken up for %s", queued, now.Sub(progress).Round(time.Second))
	}
	if f := c.history.failing; !f.IsZero() && now.Sub(f) > failureLimit && now.Sub(c.history.finished) < failureLimit {
		return fmt.Errorf("every reconcile has failed for %s; the last: %s", now.Sub(f).Round(time.Second), c.history.lastError)
	}
	return nil
}

// reasons says why caches are not filled, where that is known.
func reasons(informers []*cache.Informer) string {
	var b strings.Builder
	for _, i := range informers {
		if e := i.LastError(); e != "" {
			fmt.Fprintf(&b, "; %s: %s", i, e)
		}
	}
	return b.String()
}

// State implements Controller.
func (c *controller[K]) State(now time.Time) State {
	informers, _ := c.cc.needs.list()
	s := State{
		Name: c.name, Controller: c.cc.Name, Kind: c.kind, Workers: c.workers, QueueLength: c.queue.Len(), Running: []Running{},
		Oldest: c.lanes.oldest(now), Skips: c.skips.Load(), Panics: c.cc.panics.of(c.name, c.cc.Name),
	}
	for _, i := range informers {
		s.Sources = append(s.Sources, SourceState{Name: "cache " + i.String(), Synced: i.HasSynced(), Error: i.LastError()})
	}
	for _, src := range c.sources {
		s.Sources = append(s.Sources, SourceState{Name: src.name, Synced: src.synced == nil || c.started.Load() && src.synced()})
	}
	if err := c.Healthy(now); err != nil {
		s.Degraded = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Phase, s.Since = string(c.phase), c.since
	for key, began := range c.running {
		s.Running = append(s.Running, Running{Key: keyText(key), Age: now.Sub(began)})
	}
	slices.SortFunc(s.Running, func(a, b Running) int { return int(b.Age - a.Age) })
	s.Totals = map[Outcome]uint64{}
	for i, o := range outcomes {
		s.Totals[o] = c.history.totals[i]
	}
	s.Retries, s.Writes = c.history.retries(), c.history.writes
	s.LastSuccess, s.LastError, s.FailingSince = c.history.success, c.history.lastError, c.history.failing
	s.Last = c.history.last(historyLen)
	return s
}

// keyText returns a key as logs and pages show it.
func keyText[K comparable](key K) string {
	if k, ok := any(key).(Key); ok {
		if k.Namespace == "" {
			return k.Name
		}
		return k.Namespace + "/" + k.Name
	}
	return fmt.Sprint(key)
}
