package daemonset

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	firstBackoff = time.Second
	longBackoff  = 15 * time.Minute
	// forgiven is how long a node has to be without a failed pod for its failures to be forgotten.
	forgiven = 2 * longBackoff
	// sweepEvery is how often failures are looked through for those that are forgiven.
	sweepEvery = time.Minute
)

// failures holds back the deletion of failed pods, per DaemonSet and node, for twice as long after each. A kubelet that
// refuses a pod refuses the next one too, and would do so as fast as they are made.
type failures struct {
	mu    sync.Mutex // guards the fields below
	at    map[failing]failure
	swept time.Time
}

// failing is where pods fail. What is seen of a new generation of the DaemonSet starts afresh.
type failing struct {
	set        types.UID
	generation int64
	node       string
}

type failure struct {
	last time.Time     // when a failed pod was deleted
	wait time.Duration // until the next may be
}

// blocked returns for how long the failed pods there have to be left alone; 0 if they may be deleted.
func (f *failures) blocked(where failing, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(0, f.at[where].last.Add(f.at[where].wait).Sub(now))
}

// deleted notes that a failed pod is being deleted.
func (f *failures) deleted(where failing, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil {
		f.at = map[failing]failure{}
	}
	f.sweep(now)
	next := failure{last: now, wait: firstBackoff}
	if before, ok := f.at[where]; ok && now.Sub(before.last) <= forgiven {
		next.wait = min(2*before.wait, longBackoff)
	}
	f.at[where] = next
}

// sweep drops what is forgiven. f.mu is held.
func (f *failures) sweep(now time.Time) {
	if now.Sub(f.swept) < sweepEvery {
		return
	}
	f.swept = now
	for where, what := range f.at {
		if now.Sub(what.last) > forgiven {
			delete(f.at, where)
		}
	}
}
