package kit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"orrery/kit/cache"
)

// historyLen is how many outcomes the debug page shows.
const historyLen = 32

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
	Error   string        `json:"error,omitempty"`
	At      time.Time     `json:"at"`
	Took    time.Duration `json:"tookNanoseconds"`
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
	Name        string             `json:"name"`
	Controller  string             `json:"controller"`
	Phase       string             `json:"phase"`
	Workers     int                `json:"workers"`
	QueueLength int                `json:"queueLength"`
	Running     []Running          `json:"running"`
	Totals      map[Outcome]uint64 `json:"totals"`
	LastSuccess time.Time          `json:"lastSuccess,omitzero"`
	Degraded    string             `json:"degraded,omitempty"`
	Sources     []SourceState      `json:"sources"`
	Last        []Entry            `json:"last"`
}

// past is an Entry as the loop keeps it: formatted only when someone looks.
type past[K comparable] struct {
	key     K
	outcome Outcome
	err     error
	at      time.Time
	took    time.Duration
}

// history is a loop's recent past. Its owner's lock guards it.
type history[K comparable] struct {
	last     [historyLen]past[K]
	count    uint64
	totals   map[Outcome]uint64
	success  time.Time // end of the last reconcile that did not fail
	finished time.Time // end of the last reconcile
	failing  time.Time // end of the first failure since the last success; zero if none
}

func (h *history[K]) add(e past[K]) {
	if h.totals == nil {
		h.totals = map[Outcome]uint64{}
	}
	h.last[h.count%historyLen] = e
	h.count++
	h.totals[e.outcome]++
	h.finished = e.at
	switch e.outcome {
	case OutcomeFailed, OutcomePanicked, OutcomeTerminal:
		if h.failing.IsZero() {
			h.failing = e.at
		}
	case OutcomeDone, OutcomeLater, OutcomeDropped, OutcomeConflict, OutcomeCancelled:
		h.success, h.failing = e.at, time.Time{}
	}
}

// entries returns the kept entries, newest first.
func (h *history[K]) entries() []Entry {
	n := min(h.count, historyLen)
	out := make([]Entry, 0, n)
	for i := range n {
		r := h.last[(h.count-1-i)%historyLen]
		e := Entry{Key: keyText(r.key), Outcome: r.outcome, At: r.at, Took: r.took}
		if r.err != nil {
			e.Error = r.err.Error()
		}
		out = append(out, e)
	}
	return out
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

func (c *controller[K]) end(key K, out Outcome, err error, start, end time.Time) {
	took := end.Sub(start)
	c.cc.Metrics.reconciles.WithLabelValues(c.name, string(out)).Inc()
	c.cc.Metrics.durations.WithLabelValues(c.name).Observe(took.Seconds())
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, key)
	c.cc.Metrics.active.WithLabelValues(c.name).Set(float64(len(c.running)))
	c.history.add(past[K]{key: key, outcome: out, err: err, at: end, took: took})
}

// Healthy implements Controller.
func (c *controller[K]) Healthy(now time.Time) error {
	informers, _ := c.cc.needs.list()
	waiting := c.unsynced(informers)
	queued := c.queue.Len()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.phase == phaseStopped || c.phase == "":
		return nil
	case len(waiting) > 0 && now.Sub(c.since) > syncLimit:
		return fmt.Errorf("waiting for %s since %s%s", strings.Join(waiting, ", "), c.since.Format(time.RFC3339), reasons(informers))
	}
	for _, i := range informers {
		if since, reason := i.Failing(); reason != "" && now.Sub(since) > syncLimit {
			return fmt.Errorf("the cache of %s is not kept up to date since %s: %s", i, since.Format(time.RFC3339), reason)
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
		return fmt.Errorf("every reconcile has failed for %s; the last: %s", now.Sub(f).Round(time.Second), c.history.entries()[0].Error)
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
	s := State{Name: c.name, Controller: c.cc.Name, Workers: c.workers, QueueLength: c.queue.Len(), Running: []Running{}}
	for _, i := range informers {
		s.Sources = append(s.Sources, SourceState{Name: "cache " + i.String(), Synced: i.HasSynced(), Error: i.LastError()})
	}
	for _, src := range c.sources {
		s.Sources = append(s.Sources, SourceState{Name: src.name, Synced: src.synced == nil || src.synced()})
	}
	if err := c.Healthy(now); err != nil {
		s.Degraded = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Phase = string(c.phase)
	if c.phase == "" {
		s.Phase = string(phaseBuilt)
	}
	for key, began := range c.running {
		s.Running = append(s.Running, Running{Key: keyText(key), Age: now.Sub(began)})
	}
	slices.SortFunc(s.Running, func(a, b Running) int { return int(b.Age - a.Age) })
	s.Totals = map[Outcome]uint64{}
	for _, o := range outcomes {
		s.Totals[o] = c.history.totals[o]
	}
	s.LastSuccess = c.history.success
	s.Last = c.history.entries()
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
