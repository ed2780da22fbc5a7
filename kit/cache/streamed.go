package cache

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

const (
	// streamSilence is how long a watch that begins with all objects may tell nothing before it has said that these were all.
	streamSilence = 15 * time.Second
	// streamTicks is how often the reader of a watch looks at its channel meanwhile without an event: every ten seconds.
	streamTicks = 2
)

// errStreamed has objects listed that could come as events.
var errStreamed = errors.New("the server did not say which was the last object")

// streamed is whether the objects of an informer can come as the first events of a watch. An extension API that is made by
// hand, or a proxy, may take such a request for any other watch, and never say that these were all: then they are listed,
// and if that happens again, always.
type streamed struct {
	mu       sync.Mutex // guards the fields below
	failures int        // in a row
	list     bool       // the next time
}

// listed reports whether the objects have to be listed this time.
func (s *streamed) listed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list || s.failures > 1
	s.list = false
	return list
}

func (s *streamed) result(complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if complete {
		s.failures = 0
		return
	}
	s.failures++
	s.list = true
}

// follow watches over a watch that begins with all objects. The version is that of the store: it changes when it has them.
func (s *streamed) follow(w watch.Interface, version func() string) watch.Interface {
	before := version()
	f := &followed{Interface: w}
	f.ended = sync.OnceFunc(func() { s.result(version() != before) })
	f.mu.Lock() // the timer is set before it may fire
	defer f.mu.Unlock()
	f.timer = time.AfterFunc(streamSilence, func() { f.look(version() != before) })
	return f
}

// followed is such a watch.
type followed struct {
	watch.Interface
	looks atomic.Int64 // of the reader at the channel: one for each event and tick
	ended func()       // notes whether it has told all; once

	mu    sync.Mutex // guards the fields below
	seen  int64      // looks of the reader until ours
	timer *time.Timer
}

// ResultChan implements watch.Interface.
func (f *followed) ResultChan() <-chan watch.Event {
	f.looks.Add(1)
	return f.Interface.ResultChan()
}

// Stop implements watch.Interface.
func (f *followed) Stop() {
	f.mu.Lock()
	f.timer.Stop()
	f.mu.Unlock()
	f.ended()
	f.Interface.Stop()
}

// look ends the watch if it has told nothing since the last look and still has not told all.
func (f *followed) look(complete bool) {
	if complete {
		f.ended()
		return
	}
	f.mu.Lock()
	looks := f.looks.Load()
	silent := looks-f.seen <= streamTicks
	if f.seen = looks; !silent {
		f.timer.Reset(streamSilence)
	}
	f.mu.Unlock()
	if silent {
		f.Stop()
	}
}
