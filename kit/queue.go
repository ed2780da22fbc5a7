package kit

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
)

// lanes is the order of a queue: urgent keys first, then first in, first out. It is called by the queue under the
// queue's own lock; only the urgent set is shared with sources.
type lanes[K comparable] struct {
	mu     sync.Mutex // guards urgent
	urgent map[K]struct{}

	fast, slow ring[K]
}

func newLanes[K comparable]() *lanes[K] { return &lanes[K]{urgent: map[K]struct{}{}} }

// mark makes the next Push of the key go to the urgent lane.
func (l *lanes[K]) mark(key K) {
	l.mu.Lock()
	l.urgent[key] = struct{}{}
	l.mu.Unlock()
}

func (l *lanes[K]) takeMark(key K) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.urgent[key]
	delete(l.urgent, key)
	return ok
}

// Touch implements workqueue.Queue. A key that already waits keeps its place: moving it would cost a search.
func (l *lanes[K]) Touch(K) {}

// Push implements workqueue.Queue.
func (l *lanes[K]) Push(key K) {
	if l.takeMark(key) {
		l.fast.push(key)
		return
	}
	l.slow.push(key)
}

// Len implements workqueue.Queue.
func (l *lanes[K]) Len() int { return l.fast.n + l.slow.n }

// Pop implements workqueue.Queue.
func (l *lanes[K]) Pop() K {
	if l.fast.n > 0 {
		return l.fast.pop()
	}
	return l.slow.pop()
}

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
