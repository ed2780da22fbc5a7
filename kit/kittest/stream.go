package kittest

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
)

// stream is one watch: the body of its response. A waiting reader is durably blocked, as synctest requires.
type stream struct {
	pick   selection
	render func(*unstructured.Unstructured) map[string]any
	wake   chan struct{}

	mu      sync.Mutex  // guards the fields below
	release func() bool // stops the watch on the request's context
	items   []item
	part    []byte // the rest of an item that is being read
	frozen  bool
	closed  bool
}

// item is one encoded event and the time from which it can be read.
type item struct {
	data []byte
	due  time.Time
}

// selection is what a list or watch selects.
type selection struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

func newStream(ctx context.Context, pick selection, render func(*unstructured.Unstructured) map[string]any, timeout time.Duration) *stream {
	s := &stream{pick: pick, render: render, wake: make(chan struct{}, 1)}
	s.mu.Lock() // the context may end at once
	defer s.mu.Unlock()
	stop := context.AfterFunc(ctx, s.end)
	s.release = stop
	if timeout > 0 {
		timer := time.AfterFunc(timeout, s.end)
		s.release = func() bool { return stop() && timer.Stop() }
	}
	return s
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for {
		n, wait, err := s.take(p)
		if n > 0 || err != nil {
			return n, err
		}
		if wait <= 0 {
			<-s.wake
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// take copies what can be read now. If there is nothing, it returns how long to wait; 0 means until woken.
func (s *stream) take(p []byte) (n int, wait time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.part) == 0 && len(s.items) > 0 && !s.frozen {
		if wait = time.Until(s.items[0].due); wait <= 0 {
			s.part, s.items = s.items[0].data, s.items[1:]
		}
	}
	if len(s.part) > 0 {
		n = copy(p, s.part)
		s.part = s.part[n:]
		return n, 0, nil
	}
	if s.closed {
		return 0, 0, io.EOF
	}
	return 0, wait, nil
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.end()
	return nil
}

func (s *stream) end() {
	s.mu.Lock()
	s.closed = true
	release := s.release
	s.mu.Unlock()
	release()
	s.nudge()
}

func (s *stream) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *stream) freeze(on bool) {
	s.mu.Lock()
	s.frozen = on
	s.mu.Unlock()
	s.nudge()
}

func (s *stream) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// send queues an event for reading after the delay.
func (s *stream) send(kind watch.EventType, object any, delay time.Duration) {
	data, err := json.Marshal(map[string]any{"type": kind, "object": object})
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	s.items = append(s.items, item{append(data, '\n'), time.Now().Add(delay)})
	s.mu.Unlock()
	s.nudge()
}

// change sends the event for a change: an object that begins to match is added, one that no longer matches is deleted.
func (s *stream) change(c change, delay time.Duration) {
	is := c.obj != nil && c.kind != watch.Deleted && s.pick.matches(c.obj)
	was := c.prev != nil && s.pick.matches(c.prev)
	switch {
	case is && was:
		s.send(watch.Modified, s.render(c.obj), delay)
	case is:
		s.send(watch.Added, s.render(c.obj), delay)
	case was:
		gone := c.prev.DeepCopy()
		gone.SetResourceVersion(c.obj.GetResourceVersion())
		if c.kind == watch.Deleted {
			gone = c.obj
		}
		s.send(watch.Deleted, s.render(gone), delay)
	}
}

// bookmark sends a bookmark; initial marks the end of the initial events.
func (s *stream) bookmark(r *resource, version string, initial bool) {
	b := &unstructured.Unstructured{Object: map[string]any{}}
	b.SetGroupVersionKind(r.gvk)
	b.SetResourceVersion(version)
	if initial {
		b.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	s.send(watch.Bookmark, s.render(b), 0)
}

// matches reports whether an object is selected.
func (p selection) matches(o *unstructured.Unstructured) bool {
	if p.namespace != "" && o.GetNamespace() != p.namespace {
		return false
	}
	if p.labels != nil && !p.labels.Matches(labels.Set(o.GetLabels())) {
		return false
	}
	return p.fields == nil || p.fields.Matches(fieldsOf(o))
}

// fieldsOf lets a selector look up any string by its path.
type objectFields struct{ o *unstructured.Unstructured }

func fieldsOf(o *unstructured.Unstructured) fields.Fields { return objectFields{o} }

// Has implements fields.Fields.
func (f objectFields) Has(path string) bool { return f.Get(path) != "" }

// Get implements fields.Fields.
func (f objectFields) Get(path string) string {
	var at any = f.o.Object
	for _, name := range splitPath(path) {
		m, ok := at.(map[string]any)
		if !ok {
			return ""
		}
		at = m[name]
	}
	s, _ := at.(string)
	return s
}
