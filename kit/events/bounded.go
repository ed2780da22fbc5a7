package events

import (
	"fmt"
	"sync"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/lru"
)

// Per source and object, client-go's correlator lets a burst of events through, and then one every five minutes. But it
// builds, compares and aggregates each event before that, which for a ReplicaSet with thousands of pods costs as much as
// creating the pods. This recorder applies the same limit first, so the same events pass and the others cost nothing.
const (
	eventBurst   = 25
	eventRate    = rate.Limit(1. / 300)
	eventObjects = 4096 // as many as the correlator remembers
)

// bounded drops the events that the correlator would drop later.
type bounded struct {
	next record.EventRecorder

	mu   sync.Mutex // guards seen
	seen *lru.Cache // object to *rate.Limiter
}

func newBounded(next record.EventRecorder) *bounded {
	return &bounded{next: next, seen: lru.New(eventObjects)}
}

// passes reports whether an event about the object is within the limit. Objects that it cannot identify have no limit.
func (r *bounded) passes(obj runtime.Object) bool {
	key := objectOf(obj)
	if key == "" {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.seen.Get(key); ok {
		return l.(*rate.Limiter).Allow()
	}
	l := rate.NewLimiter(eventRate, eventBurst)
	r.seen.Add(key, l)
	return l.Allow()
}

// objectOf identifies an object by its UID, or, if it has none, by type and name.
func objectOf(obj runtime.Object) string {
	if ref, ok := obj.(*corev1.ObjectReference); ok {
		return string(ref.UID) + "/" + ref.Kind + "/" + ref.Namespace + "/" + ref.Name
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	if m.GetUID() == "" {
		return fmt.Sprintf("%T/%s/%s", obj, m.GetNamespace(), m.GetName())
	}
	return string(m.GetUID()) + "/" + m.GetNamespace() + "/" + m.GetName()
}

// Event implements record.EventRecorder.
func (r *bounded) Event(obj runtime.Object, eventtype, reason, message string) {
	if r.passes(obj) {
		r.next.Event(obj, eventtype, reason, message)
	}
}

// Eventf implements record.EventRecorder.
func (r *bounded) Eventf(obj runtime.Object, eventtype, reason, format string, args ...any) {
	if r.passes(obj) {
		r.next.Eventf(obj, eventtype, reason, format, args...)
	}
}

// AnnotatedEventf implements record.EventRecorder.
func (r *bounded) AnnotatedEventf(obj runtime.Object, annotations map[string]string, eventtype, reason, format string, args ...any) {
	if r.passes(obj) {
		r.next.AnnotatedEventf(obj, annotations, eventtype, reason, format, args...)
	}
}
