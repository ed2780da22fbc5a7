package kit

import (
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// sink is a source's end of a queue.
type sink[K comparable] struct {
	to atomic.Pointer[sinkTarget[K]]
}

type sinkTarget[K comparable] struct {
	queue  workqueue.TypedRateLimitingInterface[K]
	lanes  *lanes[K]
	delay  time.Duration
	urgent bool
}

func (s *sink[K]) connect(o *sink[K]) { s.to.Store(o.to.Load()) }

func (s *sink[K]) add(key K) { s.addAfter(key, 0) }

func (s *sink[K]) addAfter(key K, d time.Duration) {
	t := s.to.Load()
	if t == nil {
		return
	}
	if d = max(d, t.delay); d > 0 {
		t.queue.AddAfter(key, d)
		return
	}
	if t.urgent {
		t.lanes.mark(key)
	}
	t.queue.Add(key)
}
