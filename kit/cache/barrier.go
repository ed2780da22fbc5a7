package cache

import (
	"container/heap"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"orrery/kit/client"
)

// barrier tells writers when the store has caught up with their writes. Like the handlers it is told of a change after the
// store has changed, so what it is told is already visible to readers. An event costs one atomic load while nobody waits,
// and otherwise touches only the waiters that it may concern.
type barrier struct {
	part *part
	open atomic.Int32 // number of waiters

	mu        sync.Mutex // guards the fields below; wake is never called while holding it
	byVersion versionHeap
	byObject  map[types.UID][]*waiter
}

type waiter struct {
	write   client.Write
	version uint64 // of a create or update
	wake    func()
	done    bool
}

// seen is Informer.Seen for a write in a namespace of the part.
func (p *part) seen(w client.Write) bool {
	if p.stopped.Load() {
		return true
	}
	if w.Deleted {
		obj, ok := p.get(w.Key)
		return !ok || !w.Gone && obj.GetDeletionTimestamp() != nil || w.UID != "" && obj.GetUID() != w.UID
	}
	want := parseVersion(w.ResourceVersion)
	if p.version() >= want {
		return true
	}
	// The store's own version can lag behind its objects, as after a list answered from the server's cache.
	obj, ok := p.get(w.Key)
	return ok && parseVersion(obj.GetResourceVersion()) >= want
}

// whenSeen is Informer.WhenSeen for a write in a namespace of the part.
func (p *part) whenSeen(w client.Write, wake func()) (cancel func()) {
	b := &p.barrier
	n := &waiter{write: w, version: parseVersion(w.ResourceVersion), wake: wake}
	b.mu.Lock()
	if b.byObject == nil {
		b.byObject = map[types.UID][]*waiter{}
	}
	b.byObject[w.UID] = append(b.byObject[w.UID], n)
	if !w.Deleted {
		heap.Push(&b.byVersion, n)
	}
	b.open.Add(1)
	b.mu.Unlock()
	// The event may have passed between the caller's look and the registration.
	if p.seen(w) && b.finish(n) {
		wake()
	}
	return func() { b.finish(n) }
}

// finish takes a waiter out and reports whether it was still waiting. The heap drops it later.
func (b *barrier) finish(n *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.finishLocked(n)
}

func (b *barrier) finishLocked(n *waiter) bool {
	if n.done {
		return false
	}
	n.done = true
	uid := n.write.UID
	rest := slices.DeleteFunc(b.byObject[uid], func(o *waiter) bool { return o == n })
	if len(rest) == 0 {
		delete(b.byObject, uid)
	} else {
		b.byObject[uid] = rest
	}
	b.open.Add(-1)
	return true
}

// event wakes the waiters that a change of these objects may satisfy. Old and new differ in UID where a delete and a
// create were folded into one change; either may be nil.
func (b *barrier) event(old, new client.Object) {
	if b.open.Load() == 0 {
		return
	}
	version := b.part.version()
	var ready []*waiter
	b.mu.Lock()
	for len(b.byVersion) > 0 && (b.byVersion[0].done || b.byVersion[0].version <= version) {
		if n := heap.Pop(&b.byVersion).(*waiter); b.finishLocked(n) {
			ready = append(ready, n)
		}
	}
	var maybe []*waiter
	if new != nil {
		maybe = append(maybe, b.byObject[new.GetUID()]...)
	}
	if old != nil && (new == nil || old.GetUID() != new.GetUID()) {
		maybe = append(maybe, b.byObject[old.GetUID()]...)
	}
	maybe = append(maybe, b.byObject[""]...)
	b.mu.Unlock()
	for _, n := range maybe {
		if b.part.seen(n.write) && b.finish(n) {
			ready = append(ready, n)
		}
	}
	for _, n := range ready {
		n.wake()
	}
}

// version returns the latest resourceVersion that the store has reached, 0 before the first list.
func (p *part) version() uint64 {
	return parseVersion(p.store.LastStoreSyncResourceVersion())
}

// parseVersion reads a resourceVersion, which has been a comparable decimal number for every kind since Kubernetes
// 1.35. Anything else is 0, which every store has seen: an odd server must not make anyone wait for ever.
func parseVersion(s string) uint64 {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// versionHeap has the lowest version first.
type versionHeap []*waiter

func (h versionHeap) Len() int           { return len(h) }
func (h versionHeap) Less(i, j int) bool { return h[i].version < h[j].version }
func (h versionHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *versionHeap) Push(n any) { *h = append(*h, n.(*waiter)) }

// Pop implements heap.Interface.
func (h *versionHeap) Pop() any {
	old := *h
	n := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return n
}

// Newer reports whether resourceVersion a is later than b.
func Newer(a, b string) bool { return parseVersion(a) > parseVersion(b) }
