package kit

import (
	"strings"
	"time"
)

// What a loop remembers of its past, so that the status page can show what happened to an object. Per loop this is at most
// about 100 KiB of entries and, if everything fails, 64 KiB of error texts. Buffers grow as needed: a loop that has
// reconciled ten keys has room for sixteen.
const (
	recentLen   = 1024 // the last reconciles, however they ended
	troubleLen  = 256  // the last failures, kept apart so that successes do not push them out
	errorLimit  = 512  // bytes of an error's text that are kept
	historyLen  = 32   // how many of the last reconciles the page of a loop shows
	panicsLen   = 8
	stackLimit  = 4096
	firstLength = 16
)

// past is an Entry as the loop keeps it: it is formatted only when someone looks.
type past[K comparable] struct {
	key     K
	err     string
	at      int64 // in Unix nanoseconds
	took    int64 // in nanoseconds
	again   int64 // nanoseconds until the next planned reconcile; 0: none is planned
	writes  uint16
	outcome uint8 // index in outcomes
}

// keep is a ring of the last entries, which grows up to its limit.
type keep[K comparable] struct {
	buf   []past[K]
	limit int
	count int // of all entries that were ever added
}

func (k *keep[K]) add(e past[K]) {
	if k.count < k.limit {
		if len(k.buf) == cap(k.buf) {
			grown := make([]past[K], len(k.buf), min(k.limit, max(firstLength, 2*len(k.buf))))
			copy(grown, k.buf)
			k.buf = grown
		}
		k.buf = append(k.buf, e)
	} else {
		k.buf[k.count%k.limit] = e
	}
	k.count++
}

// each calls f for the entries, newest first, until it returns false.
func (k *keep[K]) each(f func(*past[K]) bool) {
	for i := range len(k.buf) {
		if !f(&k.buf[(k.count-1-i)%k.limit]) {
			return
		}
	}
}

// history is a loop's past. Its owner's lock guards it.
type history[K comparable] struct {
	recent, trouble keep[K]
	totals          [numOutcomes]uint64
	took, slowest   time.Duration // the sum, and the longest since the last Sample
	writes          uint64
	success         time.Time // end of the last reconcile that did not fail
	finished        time.Time // end of the last reconcile
	failing         time.Time // end of the first failure since the last success; zero if none
	lastError       string
}

func newHistory[K comparable]() history[K] {
	return history[K]{recent: keep[K]{limit: recentLen}, trouble: keep[K]{limit: troubleLen}}
}

func (h *history[K]) add(e past[K], end time.Time) {
	h.recent.add(e)
	h.totals[e.outcome]++
	h.writes += uint64(e.writes)
	h.took += time.Duration(e.took)
	h.slowest = max(h.slowest, time.Duration(e.took))
	h.finished = end
	switch outcomes[e.outcome] {
	case OutcomeFailed, OutcomePanicked, OutcomeTerminal:
		h.trouble.add(e)
		h.lastError = e.err
		if h.failing.IsZero() {
			h.failing = end
		}
	case OutcomeDone, OutcomeLater, OutcomeDropped, OutcomeConflict, OutcomeCancelled:
		h.success, h.failing = end, time.Time{}
	}
}

// last returns the newest entries, newest first.
func (h *history[K]) last(n int) []Entry {
	out := make([]Entry, 0, min(n, len(h.recent.buf)))
	h.recent.each(func(p *past[K]) bool {
		if len(out) < n {
			out = append(out, p.entry())
		}
		return len(out) < n
	})
	return out
}

// matching returns the entries whose key picks selects, newest first: the recent ones, and then the failures from before
// them that are still remembered.
func (h *history[K]) matching(picks func(key string) bool) []Entry {
	out := []Entry{}
	oldest := int64(0)
	known := map[K]bool{} // a key is formatted and judged once
	pick := func(p *past[K]) bool {
		yes, judged := known[p.key]
		if !judged {
			yes = picks(keyText(p.key))
			known[p.key] = yes
		}
		return yes
	}
	h.recent.each(func(p *past[K]) bool {
		if oldest = p.at; pick(p) {
			out = append(out, p.entry())
		}
		return true
	})
	h.trouble.each(func(p *past[K]) bool {
		if p.at < oldest && pick(p) {
			out = append(out, p.entry())
		}
		return true
	})
	return out
}

// entry formats what was kept.
func (p *past[K]) entry() Entry {
	at := time.Unix(0, p.at)
	e := Entry{Key: keyText(p.key), Outcome: outcomes[p.outcome], Error: p.err, At: at, Took: time.Duration(p.took), Writes: int(p.writes)}
	if p.again > 0 {
		e.Next = at.Add(time.Duration(p.again))
	}
	return e
}

// errorText returns as much of an error as is kept, without holding on to the objects in it.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return clip(err.Error(), errorLimit)
}

// clip cuts a text to about limit bytes and marks the cut. It drops what the cut leaves of a character.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
