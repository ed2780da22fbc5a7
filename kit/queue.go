package kit

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// lanes is the order of a queue: urgent keys first, then first in, first out. It is called by the queue under the
// queue's own lock; the marks are shared with sources, and the time of the last move with whoever asks for health.
type lanes[K comparable] struct {
	mu     sync.Mutex // guards marked
	marked map[K]struct{}

	fast, slow ring[K]
	urgent     map[K]struct{} // the keys in fast
	overtaken  map[K]int      // how many entries of slow are void because their key moved to fast
	voids      int            // the sum of overtaken

	moved atomic.Int64 // when the queue last gave out a key or ceased to be empty, in Unix nanoseconds
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
	l.pushFast(key)
}

// Push implements workqueue.Queue.
func (l *lanes[K]) Push(key K) {
	if l.Len() == 0 {
		l.moved.Store(time.Now().UnixNano())
	}
	if l.takeMark(key) {
		l.pushFast(key)
		return
	}
	l.slow.push(key)
}

func (l *lanes[K]) pushFast(key K) {
	l.urgent[key] = struct{}{}
	l.fast.push(key)
}

// Len implements workqueue.Queue.
func (l *lanes[K]) Len() int { return l.fast.n + l.slow.n - l.voids }

// Pop implements workqueue.Queue.
func (l *lanes[K]) Pop() K {
	l.moved.Store(time.Now().UnixNano())
	if l.fast.n > 0 {
		key := l.fast.pop()
		delete(l.urgent, key)
		return key
	}
	for {
		key := l.slow.pop()
		n := l.overtaken[key]
		if n == 0 {
			return key
		}
		l.voids--
		if l.overtaken[key] = n - 1; n == 1 {
			delete(l.overtaken, key)
		}
	}
}

// lastMove returns when the queue last gave out a key or ceased to be empty.
func (l *lanes[K]) lastMove() time.Time { return time.Unix(0, l.moved.Load()) }

// ring is a first-in-first-out buffer that grows and gives memory back when it empties.
type ring[K comparable] struct {
	buf  []K
	head int
	n    int
}

func (r *ring[K]) push(key K) {
	if r.n == len(r.buf) {
		grown := make([]K, max(16, 2*len(r.buf)))
		for i := range r.n {
			grown[i] = r.buf[(r.head+i)%len(r.buf)]
		}
		r.buf, r.head = grown, 0
	}
	r.buf[(r.head+r.n)%len(r.buf)] = key
	r.n++
}

func (r *ring[K]) pop() K {
	var zero K
	key := r.buf[r.head]
	r.buf[r.head] = zero
	r.head = (r.head + 1) % len(r.buf)
	if r.n--; r.n == 0 {
		r.buf, r.head = nil, 0
	}
	return key
}

func newQueue[K comparable](name string, l *lanes[K]) workqueue.TypedRateLimitingInterface[K] {
	inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[K]{Name: name, Queue: l})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[K]{Name: name, Queue: inner})
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[K](backoffBase, backoffCap)
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[K]{Name: name, DelayingQueue: delaying})
}
