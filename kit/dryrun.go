package kit

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"orrery/kit/client"
)

const (
	// dryPatience is how long a change waits in a dry run before its key is reconciled. The process that does the real work
	// sees the change at the same moment, and has reacted to it by then.
	dryPatience = 5 * time.Second
	// dryPause is the time before a key whose reconcile would have written something is reconciled again without a change;
	// it doubles each time that this repeats. A dry write never shows up in the cache, so nothing else would slow it down.
	dryPause    = 20 * time.Second
	dryPauseCap = 10 * time.Minute
	// dryWritesLen is how many writes are remembered.
	dryWritesLen = 512
)

// WouldWrite is a write that the server validated in a dry run and did not store. Equal ones are merged and counted.
type WouldWrite struct {
	Loop     string    `json:"loop"`
	Key      string    `json:"key"` // for which it was made
	Verb     string    `json:"verb"`
	Resource string    `json:"resource"`
	Object   string    `json:"object"`
	Detail   string    `json:"detail,omitempty"`
	Count    int       `json:"count"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
}

// DryRun remembers what the loops of a dry run would have written. A write leaves the list once a later reconcile of its key
// would not make it any more, as when another process has. It is safe for concurrent use.
type DryRun struct {
	mu      sync.Mutex // guards the fields below
	open    map[dryKey]*dryKeyState
	writes  int
	settled uint64
	dropped uint64
}

type dryKey struct{ loop, key string }

// dryKeyState is what the last reconcile of a key would have written.
type dryKeyState struct {
	writes []WouldWrite
	looks  int // reconciles in a row that would have written something
}

// NewDryRun returns an empty list.
func NewDryRun() *DryRun { return &DryRun{open: map[dryKey]*dryKeyState{}} }

// Writes returns what would be written, the latest first, how many writes have left the list because they were no longer
// needed, and how many because the list was full.
func (d *DryRun) Writes() (open []WouldWrite, settled, dropped uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	open = []WouldWrite{}
	for _, s := range d.open {
		open = append(open, s.writes...)
	}
	slices.SortFunc(open, func(a, b WouldWrite) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Loop, b.Loop), cmp.Compare(a.Object, b.Object))
	})
	return open, d.settled, d.dropped
}

// report records what the reconcile of a key would have written. It returns how long the key has to wait at least before
// it is reconciled again without a change; 0 means that it does not have to.
func (d *DryRun) report(loop, key string, writes []client.DryWrite, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := dryKey{loop, key}
	s := d.open[id]
	if len(writes) == 0 {
		if s != nil {
			d.settled += uint64(len(s.writes))
			d.forget(id)
		}
		return 0
	}
	next := &dryKeyState{looks: 1}
	if s != nil {
		next.looks = s.looks + 1
	}
	for _, w := range writes {
		next.add(s, WouldWrite{
			Loop: loop, Key: key, Verb: w.Verb, Resource: w.Resource, Object: w.Object, Detail: w.Detail, Count: 1, First: now, Last: now,
		})
	}
	if s != nil {
		d.settled += next.gone(s)
		d.forget(id)
	}
	d.open[id] = next
	d.writes += len(next.writes)
	for d.writes > dryWritesLen && len(d.open) > 1 {
		d.dropOldest(id)
	}
	return min(dryPause<<min(next.looks-1, 10), dryPauseCap)
}

// same reports whether two writes are the same but for when they were made.
func (w WouldWrite) same(o WouldWrite) bool {
	return w.Verb == o.Verb && w.Resource == o.Resource && w.Object == o.Object && w.Detail == o.Detail
}

// add adds a write. A repeat within the reconcile is only counted; one that the reconcile before would have made too keeps
// its count and the time of the first.
func (s *dryKeyState) add(before *dryKeyState, w WouldWrite) {
	if i := slices.IndexFunc(s.writes, w.same); i >= 0 {
		s.writes[i].Count++
		return
	}
	if before != nil {
		if i := slices.IndexFunc(before.writes, w.same); i >= 0 {
			w.Count, w.First = w.Count+before.writes[i].Count, before.writes[i].First
		}
	}
	s.writes = append(s.writes, w)
}

// gone counts the writes of the reconcile before that this one would not make.
func (s *dryKeyState) gone(before *dryKeyState) (n uint64) {
	for _, w := range before.writes {
		if !slices.ContainsFunc(s.writes, w.same) {
			n++
		}
	}
	return n
}

func (d *DryRun) forget(id dryKey) {
	d.writes -= len(d.open[id].writes)
	delete(d.open, id)
}

// dropOldest makes room by forgetting the key, other than this one, whose writes are oldest.
func (d *DryRun) dropOldest(but dryKey) {
	var oldest dryKey
	var at time.Time
	for id, s := range d.open {
		if last := s.writes[0].Last; id != but && (at.IsZero() || last.Before(at)) {
			oldest, at = id, last
		}
	}
	d.dropped += uint64(len(d.open[oldest].writes))
	d.forget(oldest)
}

// dryRun records what a reconcile would have written, and returns the result that keeps the key from being reconciled
// again at once. An error that follows such a write is no failure: it comes from the write not having been stored.
func (c *controller[K]) dryRun(key K, writes []client.DryWrite, now time.Time, res Result, err error) (Result, error) {
	pause := c.cc.DryRun.report(c.name, keyText(key), writes, now)
	var panicked *PanicError
	if pause == 0 || errors.As(err, &panicked) {
		return res, err
	}
	if err != nil {
		c.log.V(2).Info("Failed after a write that was not stored", "key", key, "err", err)
	}
	return After(max(pause, res.After)), nil
}

// dryDelay is the delay of a source in a dry run.
func (cc ControllerContext) dryDelay(d time.Duration) time.Duration {
	if cc.DryRun == nil {
		return d
	}
	return max(d, dryPatience)
}
