package podctl

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/client"
)

// Pods that go as soon as they are made, as those that a node refuses or a webhook gives other labels, are made anew
// without an end: nothing fails that could back off. So what is made beyond the first fill of a size is measured. The
// numbers are those of a client with client-go's usual limits: no owner gets its pods later than from such a one.
const (
	spare     = 30 // pods made at once beyond a whole replacement
	perSecond = 20 // pods made in a second where these are used up
)

// allowanceWait is how long to wait where an allowance is used up: then there is a second's worth.
const allowanceWait = time.Second

// allowance is what an owner may make for one version of its spec. It is lost with the process, and begins anew then.
type allowance struct {
	uid        types.UID
	generation int64
	size       int
	left       float64
	at         time.Time
}

// Allowances measures how many pods owners make. It is safe for concurrent use.
type Allowances struct {
	mu sync.Mutex // guards of
	of map[kit.Key]*allowance
}

// NewAllowances returns an Allowances of owners that all have their whole allowance.
func NewAllowances() *Allowances { return &Allowances{of: map[kit.Key]*allowance{}} }

// Take grants up to most of the pods that an owner misses of size. What it does not grant comes with the time: wait is
// until when there is more, 0 where nothing was held back. The first fill, that after a change of the spec, and what the
// size grows by cost nothing.
func (a *Allowances) Take(ctx context.Context, owner client.Object, size, missing, most int, now time.Time) (granted int, wait time.Duration) {
	granted = a.grant(owner, size, missing, most, now)
	if held := min(missing, most) - granted; held > 0 {
		klog.FromContext(ctx).V(2).Info("Pods go as fast as they are made: the others are made more slowly",
			"object", klog.KObj(owner), "creating", granted, "waiting", held)
		wait = allowanceWait
	}
	return granted, wait
}

func (a *Allowances) grant(owner client.Object, size, missing, most int, now time.Time) (granted int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key, full := kit.KeyOf(owner), float64(size+spare)
	own := a.of[key]
	if own == nil || own.uid != owner.GetUID() || own.generation != owner.GetGeneration() {
		own = &allowance{uid: owner.GetUID(), generation: owner.GetGeneration(), size: size, left: full + float64(missing), at: now}
		a.of[key] = own
	}
	own.left += float64(max(0, size-own.size))
	if own.left < full {
		own.left = min(own.left+perSecond*now.Sub(own.at).Seconds(), full)
	}
	own.at, own.size = now, size
	granted = max(0, min(missing, most, int(own.left)))
	own.left -= float64(granted)
	return granted
}

// GiveBack returns what was granted and not made.
func (a *Allowances) GiveBack(owner kit.Key, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if own := a.of[owner]; own != nil {
		own.left += float64(n)
	}
}

// Forget drops what is known of an owner that is gone.
func (a *Allowances) Forget(owner kit.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, owner)
}
