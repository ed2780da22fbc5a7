package cache

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

const (
	// streamSilence is how long a watch that begins with all objects may be silent before the bookmark that ends them.
	streamSilence = 15 * time.Second
	// streamTicks is how many times the reflector looks at the channel of the watch in that time without there being an
	// event: it does so every ten seconds.
	streamTicks = 2
)

// errStreamed makes the reflector fall back to a list.
var errStreamed = errors.New("the server did not say which was the last object")

// streamed remembers whether the objects of an informer can come as the first events of a watch. A handmade extension API,
// or a proxy, may take such a request for an ordinary watch and never send the bookmark that ends the objects. Then they
// are listed the next time and, if it happens again, always.
type streamed struct {
	mu       sync.Mutex // guards the fields below
	failures int        // in a row
	list     bool       // the next time, instead of a watch
}

// listed reports whether the objects have to be listed this time.
func (s *streamed) listed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list || s.failures > 1
	s.list = false
	return list
}

// result notes whether the objects of a watch came to an end.
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

// follow supervises a watch that begins with all objects. version is that of the store, which changes when the store has
// received them all.
func (s *streamed) follow(w watch.Interface, version func() string) watch.Interface {
	before := version()
	f := &followed{Interface: w}
	f.ended = sync.OnceFunc(func() { s.result(version() != before) })
	f.mu.Lock() // the timer is set before it may fire
	defer f.mu.Unlock()
	f.timer = time.AfterFunc(streamSilence, func() { f.look(version() != before) })
	return f
}

// followed is a supervised watch.
type followed struct {
	watch.Interface
	looks atomic.Int64 // how often the reader has looked at the channel: once for each event and each tick
	ended func()       // notes, once, whether all objects have come

	mu    sync.Mutex // guards the fields below
	seen  int64      // value of looks at our last look
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

// look ends the watch if it has been silent since the last look and has not sent all objects.
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
