package kit

import (
	"sync"
	"sync/atomic"
	"time"

	"orrery/kit/cache"
	"orrery/kit/client"
)

const (
	// seenTimeout bounds how long a key waits for the cache to show a write that the server confirmed. A cache that lags
	// longer has lost its watch, and its health check says so.
	seenTimeout = 5 * time.Minute
	// unknownPause is how long a write of unknown outcome may still be in flight. After it the cache is compared with the
	// server, and the key waits until the cache would show the write.
	unknownPause = 5 * time.Second
	// recheck bounds the wait for a cache whose version rises without an event for the controller.
	recheck = time.Second
	// sweepEvery is the number of noted reconciles after which entries of keys that never came back are dropped.
	sweepEvery = 1024
)

// ownWrites remembers, per key, what the cache has to show before the key may be reconciled again. It is what keeps a
// controller from acting twice on a cache that lags behind its own writes.
type ownWrites[K comparable] struct {
	cache *cache.Cache
	wake  func(K)

	mu      sync.Mutex // guards the fields below
	pending map[K]*pendingWrites
	noted   int
}

type pendingWrites struct {
	writes []pendingWrite
	cancel func() // ends the current wait; nil if nothing waits
}

type pendingWrite struct {
	informer *cache.Informer
	write    client.Write
	until    time.Time
	doubt    *doubt // nil unless the outcome of the write is unknown
}

// doubt is what is known of a write that may or may not have been stored.
type doubt struct {
	ask   time.Time // when to compare the cache with the server
	asked bool
	over  atomic.Bool // if the write has been stored, the cache shows it
}

func newOwnWrites[K comparable](c *cache.Cache, wake func(K)) *ownWrites[K] {
	return &ownWrites[K]{cache: c, wake: wake, pending: map[K]*pendingWrites{}}
}

func (p pendingWrite) settled(now time.Time) bool {
	if !now.Before(p.until) {
		return true
	}
	if p.doubt == nil {
		return p.informer.Seen(p.write)
	}
	return p.doubt.over.Load() || p.write.Deleted && p.informer.Seen(p.write)
}

// note files the writes of one reconcile. Of several versions of one kind only the highest matters.
func (o *ownWrites[K]) note(key K, writes []client.Write, now time.Time) {
	if len(writes) == 0 {
		return
	}
	p := &pendingWrites{}
	latest := map[*cache.Informer]int{}
	for _, w := range writes {
		for _, i := range o.cache.Serving(w.GVK) {
			// A cache that has not been filled yet is not what the write was decided on.
			if i.HasSynced() && i.Concerns(w) {
				n := pendingWrite{informer: i, write: w, until: now.Add(seenTimeout)}
				if w.Unknown {
					n.doubt = &doubt{ask: now.Add(unknownPause)}
				}
				p.add(n, latest)
			}
		}
	}
	if len(p.writes) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending[key] = p // nothing is pending yet: until the earlier writes have settled, hold lets no reconcile of the key begin
	if o.noted++; o.noted%sweepEvery == 0 {
		o.sweep(now)
	}
}

// add files one write, in the place of an earlier one that it outdates.
func (p *pendingWrites) add(n pendingWrite, latest map[*cache.Informer]int) {
	if !n.write.Deleted && !n.write.Unknown {
		if at, ok := latest[n.informer]; ok {
			if cache.Newer(n.write.ResourceVersion, p.writes[at].write.ResourceVersion) {
				p.writes[at] = n
			}
			return
		}
		latest[n.informer] = len(p.writes)
	}
	p.writes = append(p.writes, n)
}

// hold returns the informer that the key has to wait for, or nil if the key may be reconciled now. If it has to wait, wake
// is called for it when the informer has caught up, or when it is time to look again.
func (o *ownWrites[K]) hold(key K, now time.Time) (lagging *cache.Informer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.pending[key]
	if p == nil {
		return nil
	}
	p.stop()
	for len(p.writes) > 0 && p.writes[0].settled(now) {
		p.writes = p.writes[1:]
	}
	if len(p.writes) == 0 {
		delete(o.pending, key)
		return nil
	}
	first := p.writes[0]
	next := min(recheck, first.until.Sub(now))
	if d := first.doubt; d != nil && !d.asked {
		if left := d.ask.Sub(now); left > 0 {
			next = min(next, left)
		} else {
			d.asked = true
			o.cache.WhenCaughtUp(first.informer, func() {
				d.over.Store(true)
				o.wake(key)
			})
		}
	}
	// A timer of our own rather than the queue's: it can be cancelled, and then costs no reconcile.
	timer := time.AfterFunc(next, func() { o.wake(key) })
	giveUp := func() {}
	if first.write.Deleted || !first.write.Unknown {
		giveUp = first.informer.WhenSeen(first.write, func() { o.wake(key) })
	}
	p.cancel = func() {
		timer.Stop()
		giveUp()
	}
	return first.informer
}

// sweep drops what has settled, for keys that nothing asks for any more. o.mu is held.
func (o *ownWrites[K]) sweep(now time.Time) {
	for key, p := range o.pending {
		open := p.writes[:0]
		for _, w := range p.writes {
			if !w.settled(now) {
				open = append(open, w)
			}
		}
		if p.writes = open; len(open) == 0 && p.cancel == nil {
			delete(o.pending, key)
		}
	}
}

func (p *pendingWrites) stop() {
	if p.cancel != nil {
		p.cancel()
		p.cancel = nil
	}
}
