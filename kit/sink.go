package kit

import (
	"errors"
	"reflect"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"

	"orrery/kit/client"
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

// panicked logs a panic and counts it under the name of a loop, or of the controller where no loop is known.
func (cc ControllerContext) panicked(loop string, err error, where string, old, new client.Object) {
	var key Key
	switch {
	case new != nil && !isNil(new):
		key = KeyOf(new)
	case old != nil && !isNil(old):
		key = KeyOf(old)
	}
	cc.Metrics.panics.WithLabelValues(loop).Inc()
	log := cc.Log.WithValues("in", where, "object", key)
	if p, ok := errors.AsType[*PanicError](err); ok {
		log = log.WithValues("stack", string(p.Stack))
	}
	log.Error(err, "Caught a panic")
}

// isNil reports whether an object is a typed nil, as a missing side of a change is.
func isNil(o client.Object) bool {
	v := reflect.ValueOf(o)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
