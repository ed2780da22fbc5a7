package kit

import (
	"strings"
	"time"
)

// What a loop remembers of its past, so that a page can answer what happened to an object. Per loop this is at most
// about 100 KiB of entries and, where everything fails, 64 KiB of error texts. It is taken as it is needed: a loop that
// has reconciled ten keys has room for sixteen.
const (
	recentLen   = 1024 // the last reconciles, however they ended
	troubleLen  = 256  // and the last ones that failed, which many good ones must not push out
	errorLimit  = 512  // bytes of an error's text that are kept
	historyLen  = 32   // how many of them the page of a loop shows
	panicsLen   = 8
	stackLimit  = 4096
	firstLength = 16
)

// past is an Entry as the loop keeps it: formatted only when someone looks. Times are in nanoseconds, since 1970 or long.
type past[K comparable] struct {
	key     K
	err     string
	at      int64
	took    int64
	again   int64 // until the next look that is planned; 0: none
	writes  uint16
	outcome uint8 // index in outcomes
}

// keep is a buffer of the last so many entries, which grows up to that.
type keep[K comparable] struct {
	buf   []past[K]
	limit int
	count int // of all there ever were
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
	took, slowest   time.Duration // in sum, and the longest since the last Sample
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

// matching returns the entries whose key the function picks, newest first: those of the recent past, and before that the
// failures that are still remembered.
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

// clip cuts a text, which may not be valid UTF-8 after that, and says so.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
