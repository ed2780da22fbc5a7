package kit

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// lanes is the order of a queue: urgent keys first, but not always, then first in, first out. The queue calls it under a
// lock of its own. Without that lock sources set marks, and health checks read the two times.
type lanes[K comparable] struct {
	mu     sync.Mutex // guards marked
	marked map[K]struct{}

	fast, slow ring[K]
	urgent     map[K]struct{} // the keys in fast
	overtaken  map[K]int      // how many entries of slow are void because their key moved to fast
	voids      int            // the sum of overtaken
	ahead      int            // how many urgent keys in a row have been given out while others waited

	moved atomic.Int64 // when the queue last gave out a key or ceased to be empty, in Unix nanoseconds
	since atomic.Int64 // when the longest-waiting key was added, in Unix nanoseconds; 0: none waits
}

func newLanes[K comparable]() *lanes[K] {
	return &lanes[K]{marked: map[K]struct{}{}, urgent: map[K]struct{}{}, overtaken: map[K]int{}}
}

// mark makes the next Push or Touch of the key lead to the urgent lane.
func (l *lanes[K]) mark(key K) {
	l.mu.Lock()
	l.marked[key] = struct{}{}
	l.mu.Unlock()
}

func (l *lanes[K]) takeMark(key K) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.marked[key]
	delete(l.marked, key)
	return ok
}

// Touch implements workqueue.Queue: the key, which waits already, was added again. It overtakes if it is urgent now.
func (l *lanes[K]) Touch(key K) {
	if !l.takeMark(key) {
		return
	}
	if _, ok := l.urgent[key]; ok {
		return
	}
	l.overtaken[key]++
	l.voids++
	l.pushFast(key, time.Now().UnixNano())
}

// Push implements workqueue.Queue.
func (l *lanes[K]) Push(key K) {
	now := time.Now().UnixNano()
	if l.Len() == 0 {
		l.moved.Store(now)
		l.since.Store(now)
	}
	if l.takeMark(key) {
		l.pushFast(key, now)
		return
	}
	l.slow.push(queued[K]{key, now})
}

func (l *lanes[K]) pushFast(key K, now int64) {
	l.urgent[key] = struct{}{}
	l.fast.push(queued[K]{key, now})
}

// Len implements workqueue.Queue.
func (l *lanes[K]) Len() int { return l.fast.n + l.slow.n - l.voids }

// Pop implements workqueue.Queue.
func (l *lanes[K]) Pop() K {
	l.moved.Store(time.Now().UnixNano())
	key := l.pop()
	l.dropVoids()
	l.since.Store(min(l.fast.head(), l.slow.head()) % never) // 0 if both are empty
	return key
}

func (l *lanes[K]) pop() K {
	l.dropVoids()
	if l.fast.n == 0 || l.ahead >= urgentRun && l.slow.n > 0 {
		l.ahead = 0
		return l.slow.pop().key
	}
	if l.ahead++; l.slow.n == 0 {
		l.ahead = 0
	}
	key := l.fast.pop().key
	delete(l.urgent, key)
	return key
}

// dropVoids makes the first entry of slow one that counts.
func (l *lanes[K]) dropVoids() {
	for l.voids > 0 && l.slow.n > 0 {
		key := l.slow.buf[l.slow.first].key
		n := l.overtaken[key]
		if n == 0 {
			return
		}
		l.slow.pop()
		l.voids--
		if l.overtaken[key] = n - 1; n == 1 {
			delete(l.overtaken, key)
		}
	}
}

// oldest returns how long the longest-waiting key has waited.
func (l *lanes[K]) oldest(now time.Time) time.Duration {
	since := l.since.Load()
	if since == 0 {
		return 0
	}
	return max(0, time.Duration(now.UnixNano()-since))
}

// lastMove returns when the queue last gave out a key or ceased to be empty.
func (l *lanes[K]) lastMove() time.Time { return time.Unix(0, l.moved.Load()) }

// queued is a key and when it was added, in Unix nanoseconds.
type queued[K comparable] struct {
	key   K
	since int64
}

const (
	never    = math.MaxInt64 // later than all times
	smallest = 16            // entries of a buffer that is kept when it empties

	// urgentRun is how many urgent keys may overtake the same other key. If there were no limit, and they came faster than
	// they are reconciled, the others would wait for ever.
	urgentRun = 16
)

// ring is a first-in-first-out buffer that grows and gives memory back when it empties.
type ring[K comparable] struct {
	buf   []queued[K]
	first int
	n     int
}

func (r *ring[K]) push(key queued[K]) {
	if r.n == len(r.buf) {
		grown := make([]queued[K], max(smallest, 2*len(r.buf)))
		for i := range r.n {
			grown[i] = r.buf[(r.first+i)%len(r.buf)]
		}
		r.buf, r.first = grown, 0
	}
	r.buf[(r.first+r.n)%len(r.buf)] = key
	r.n++
}

func (r *ring[K]) pop() queued[K] {
	key := r.buf[r.first]
	r.buf[r.first] = queued[K]{}
	r.first = (r.first + 1) % len(r.buf)
	if r.n--; r.n == 0 && len(r.buf) > smallest {
		r.buf, r.first = nil, 0
	}
	return key
}

// head returns when the first key was added, or never if there is none.
func (r *ring[K]) head() int64 {
	if r.n == 0 {
		return never
	}
	return r.buf[r.first].since
}

func newQueue[K comparable](name string, l *lanes[K], limiter workqueue.TypedRateLimiter[K]) workqueue.TypedRateLimitingInterface[K] {
	inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[K]{Name: name, Queue: l})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[K]{Name: name, Queue: inner})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[K]{Name: name, DelayingQueue: delaying})
}
