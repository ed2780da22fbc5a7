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
	eventSettle   = time.Second      // how long the repetitions of an event are gathered
	eventRetry    = 10 * time.Second // between attempts while the server cannot be reached
	eventAttempts = 12
)

// gatheringSink publishes events. What repeats is counted in the event that is there: when one ReplicaSet makes pods, a
// dozen patches of the same event follow each other, each of which says all that the one before said. The sink sends the
// last of a second.
type gatheringSink struct {
	record.EventSink
	ctx context.Context // ends the sink; what is gathered by then is dropped

	mu      sync.Mutex // guards the fields below
	pending map[string]*repetition
	marks   map[string]chan struct{} // that are in the queue
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

// Patch implements record.EventSink. It answers with the event as it will be, of which the caller keeps name and count.
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

// send publishes what has been gathered for one event. An event that has expired meanwhile is made anew.
func (s *gatheringSink) send(key string) {
	s.mu.Lock()
	p, ok := s.pending[key]
	delete(s.pending, key)
	s.mu.Unlock()
	if !ok || s.ctx.Err() != nil {
		return // sent before its time, or too late
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
	if apierrors.IsNotFound(err) || client.NamespaceGoing(err) {
		log.V(4).Info("Dropped the repetition of an event with its namespace", "event", key, "reason", p.event.Reason)
		return
	}
	log.Error(err, "Gave up on the repetition of an event", "event", key, "reason", p.event.Reason)
}

// again keeps what could not be sent, unless something newer waits, and reports whether either will be sent.
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
