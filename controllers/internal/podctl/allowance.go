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

// Pods that fail as soon as they are created, such as those that a node rejects or to which a webhook gives other labels,
// would be created again and again: no call fails, so nothing backs off. Therefore creations beyond the first fill of a
// size are limited. The numbers are client-go's default rate limits for kube-controller-manager, so that no owner gets its
// pods later than it would there.
const (
	spare     = 30 // pods created at once beyond a replacement of all
	perSecond = 20 // pods created per second after that
)

// allowanceWait is how long an owner waits whose allowance is used up. By then it has been refilled for a second.
const allowanceWait = time.Second

// allowance is how many pods an owner may create for one generation of its spec. It is not kept across restarts.
type allowance struct {
	uid        types.UID
	generation int64
	size       int
	left       float64
	at         time.Time
}

// Allowances limits how many pods owners create. It is safe for concurrent use.
type Allowances struct {
	mu sync.Mutex // guards of
	of map[kit.Key]*allowance
}

// NewAllowances returns Allowances of which nothing has been used.
func NewAllowances() *Allowances { return &Allowances{of: map[kit.Key]*allowance{}} }

// Take grants an owner of size pods up to most of those that are missing. If it grants fewer, wait is the time until it
// grants more; otherwise wait is 0. The first fill, the first one after a change of the spec, and what the size grows by
// are free.
func (a *Allowances) Take(ctx context.Context, owner client.Object, size, missing, most int, now time.Time) (granted int, wait time.Duration) {
	granted = a.grant(owner, size, missing, most, now)
	if held := min(missing, most) - granted; held > 0 {
		klog.FromContext(ctx).V(2).Info("Pods disappear as fast as they are created: slowing down",
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

// GiveBack returns what was granted and not created.
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
