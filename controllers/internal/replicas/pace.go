package replicas

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"orrery/kit"
	"orrery/kit/client"
)

// Pods that go as soon as they are made, as those that a node refuses or a webhook gives other labels, are made anew
// without an end: nothing fails that could back off. So what is made beyond the first fill of a size is measured. The
// numbers are those of a client with client-go's usual limits: no object gets its pods later than from such a one.
const (
	spare     = 30 // pods made at once beyond a whole replacement
	perSecond = 20 // pods made in a second where these are used up
)

// allowance is what an object may make of one size. It is lost with the process, and begins anew then.
type allowance struct {
	uid        types.UID
	generation int64
	left       float64
	at         time.Time
}

// allowances is safe for concurrent use.
type allowances struct {
	mu sync.Mutex // guards of
	of map[kit.Key]*allowance
}

func newAllowances() *allowances { return &allowances{of: map[kit.Key]*allowance{}} }

// take grants up to most of the pods that an object misses. What it does not grant comes with the time.
func (a *allowances) take(set client.Object, replicas, missing, most int, now time.Time) (granted int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key, full := kit.KeyOf(set), float64(replicas+spare)
	own := a.of[key]
	if own == nil || own.uid != set.GetUID() || own.generation != set.GetGeneration() {
		own = &allowance{uid: set.GetUID(), generation: set.GetGeneration(), left: full + float64(missing), at: now}
		a.of[key] = own
	}
	if own.left < full {
		own.left = min(own.left+perSecond*now.Sub(own.at).Seconds(), full)
	}
	own.at = now
	granted = min(missing, most, int(own.left))
	own.left -= float64(granted)
	return granted
}

// giveBack returns what was granted and not made.
func (a *allowances) giveBack(key kit.Key, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if own := a.of[key]; own != nil {
		own.left += float64(n)
	}
}

func (a *allowances) forget(key kit.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, key)
}
