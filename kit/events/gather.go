package events

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"orrery/kit/client"
)

const (
	eventSettle   = time.Second      // how long the patches of an event are gathered
	eventRetry    = 10 * time.Second // between attempts while the server cannot be reached
	eventAttempts = 12
)

// gatheringSink publishes events. A repeated event is a patch that raises the count of the existing one: while a ReplicaSet
// creates pods, the same event is patched a dozen times in a row, and each patch includes the one before. The sink sends
// only the last patch of each second.
type gatheringSink struct {
	record.EventSink
	ctx context.Context // ends the sink; patches still pending then are dropped

	mu      sync.Mutex // guards the fields below
	pending map[string]*repetition
	marks   map[string]chan struct{} // those in the queue; closed when they come out
}

// repetition is the latest state of a repeated event, and the patch that brings it to the server.
type repetition struct {
	event    *corev1.Event
	patch    []byte
	attempts int
}

func newGatheringSink(ctx context.Context, next record.EventSink) *gatheringSink {
	return &gatheringSink{EventSink: next, ctx: ctx, pending: map[string]*repetition{}, marks: map[string]chan struct{}{}}
}

// Patch implements record.EventSink. It returns the event as it will be after the patch: the caller caches its name and count.
func (s *gatheringSink) Patch(event *corev1.Event, patch []byte) (*corev1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := event.Namespace + "/" + event.Name
	if p, ok := s.pending[key]; ok {
		p.event, p.patch = event, patch
		return event, nil
	}
	s.pending[key] = &repetition{event: event, patch: patch}
	time.AfterFunc(eventSettle, func() { s.send(key) })
	return event, nil
}

// send sends the pending patch of one event. An event that has expired meanwhile is created again.
func (s *gatheringSink) send(key string) {
	s.mu.Lock()
	p, ok := s.pending[key]
	delete(s.pending, key)
	s.mu.Unlock()
	if !ok || s.ctx.Err() != nil {
		return // already sent by a flush, or the sink has ended
	}
	_, err := s.EventSink.Patch(p.event, p.patch)
	if apierrors.IsNotFound(err) {
		fresh := p.event.DeepCopy()
		fresh.ResourceVersion = ""
		_, err = s.EventSink.Create(fresh)
	}
	if err == nil {
		return
	}
	if _, answered := errors.AsType[*apierrors.StatusError](err); !answered && s.again(key, p) {
		return
	}
	log := klog.FromContext(s.ctx)
	if apierrors.IsNotFound(err) || client.IsNamespaceTerminating(err) {
		log.V(4).Info("Dropped the repetition of an event with its namespace", "event", key, "reason", p.event.Reason)
		return
	}
	log.Error(err, "Gave up on the repetition of an event", "event", key, "reason", p.event.Reason)
}

// again retries a patch later, unless a newer one is pending, and reports whether either will be sent.
func (s *gatheringSink) again(key string, p *repetition) bool {
	if p.attempts++; p.attempts >= eventAttempts {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, newer := s.pending[key]; newer {
		return true
	}
	s.pending[key] = p
	time.AfterFunc(eventRetry, func() { s.send(key) })
	return true
}
