package daemonset

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	minBackoff = time.Second
	maxBackoff = 15 * time.Minute
	// forgetAfter is how long a node has to be without a failed pod for its backoff to start over.
	forgetAfter = 2 * maxBackoff
	// sweepPeriod is how often old failures are dropped.
	sweepPeriod = time.Minute
)

// failures delays the deletion of failed pods with an exponential backoff per DaemonSet and node. A kubelet that rejects a
// pod rejects its replacement too: without a delay, pods would be created and deleted as fast as possible.
type failures struct {
	mu    sync.Mutex // guards the fields below
	at    map[failureKey]failure
	swept time.Time
}

// failureKey is what failures are counted by. The backoff starts over with a new generation of the DaemonSet.
type failureKey struct {
	set        types.UID
	generation int64
	node       string
}

type failure struct {
	last time.Time     // when a failed pod was deleted
	wait time.Duration // from then until the next may be deleted
}

// blocked returns how long failed pods must not be deleted yet; 0 if they may be.
func (f *failures) blocked(key failureKey, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(0, f.at[key].last.Add(f.at[key].wait).Sub(now))
}

// deleted records that a failed pod is being deleted.
func (f *failures) deleted(key failureKey, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil {
		f.at = map[failureKey]failure{}
	}
	f.sweep(now)
	next := failure{last: now, wait: minBackoff}
	if before, ok := f.at[key]; ok && now.Sub(before.last) <= forgetAfter {
		next.wait = min(2*before.wait, maxBackoff)
	}
	f.at[key] = next
}

// sweep drops the failures whose backoff would start over anyway. f.mu is held.
func (f *failures) sweep(now time.Time) {
	if now.Sub(f.swept) < sweepPeriod {
		return
	}
	f.swept = now
	for key, failed := range f.at {
		if now.Sub(failed.last) > forgetAfter {
			delete(f.at, key)
		}
	}
}
