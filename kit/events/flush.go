package events

import (
	"context"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// flushWorkers is how many pending patches are sent concurrently by a flush.
const flushWorkers = 8

// markKind is the kind that a mark is about. A mark is an event that passes through the queue but is never sent: when it
// comes out, everything recorded before it has been sent.
const markKind = "Flush"

// Flush sends everything that has been recorded so far. It returns when that is done or ctx has ended.
func (p *Publisher) Flush(ctx context.Context) {
	name := strconv.FormatInt(p.marks.Add(1), 10)
	passed := p.sink.expect(name)
	marker := p.broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{})
	marker.Event(&corev1.ObjectReference{Kind: markKind, Name: name}, corev1.EventTypeNormal, "", "")
	select {
	case <-ctx.Done():
	case <-passed:
		p.sink.sendAll(ctx)
	}
}

// isMark reports whether an event is a mark. Real events have a reason.
func isMark(e *corev1.Event) bool { return e.Reason == "" && e.InvolvedObject.Kind == markKind }

// expect returns a channel that is closed when the mark has come out of the queue.
func (s *gatheringSink) expect(mark string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	passed := make(chan struct{})
	s.marks[mark] = passed
	return passed
}

// Create implements record.EventSink.
func (s *gatheringSink) Create(event *corev1.Event) (*corev1.Event, error) {
	if !isMark(event) {
		return s.EventSink.Create(event)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if passed, ok := s.marks[event.InvolvedObject.Name]; ok {
		close(passed)
		delete(s.marks, event.InvolvedObject.Name)
	}
	return event, nil
}

// sendAll sends all pending patches, until ctx ends.
func (s *gatheringSink) sendAll(ctx context.Context) {
	s.mu.Lock()
	keys := make(chan string, len(s.pending))
	for key := range s.pending {
		keys <- key
	}
	s.mu.Unlock()
	close(keys)
	var wg sync.WaitGroup
	for range min(flushWorkers, len(keys)) {
		wg.Go(func() {
			for key := range keys {
				if ctx.Err() != nil {
					return
				}
				s.send(key)
			}
		})
	}
	sent := make(chan struct{})
	go func() {
		wg.Wait()
		close(sent)
	}()
	select {
	case <-ctx.Done():
	case <-sent:
	}
}
