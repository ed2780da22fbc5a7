package cache

import (
	"slices"
	"sync"
	"sync/atomic"

	toolscache "k8s.io/client-go/tools/cache"

	"orrery/kit/client"
)

// fanout tells the handlers of a part what changes, from the goroutine that keeps its store. A goroutine and a buffer
// for each handler would cost more than the handlers do: they only map an object to keys, so none holds up another.
type fanout struct {
	// telling is held while handlers are told of a change, and while a late handler is told what is in the store: no handler
	// sees a change before the state that it changes.
	telling sync.Mutex

	mu        sync.Mutex  // guards the fields below; no handler is called while holding it
	opened    bool        // handlers are told of changes
	listeners []*listener // replaced and never modified
}

// join adds a handler. Once the fan-out is open, the handler is told what is in the store before join returns.
func (f *fanout) join(l *listener, stored func() []any) {
	if f.add(l) {
		return
	}
	f.telling.Lock()
	defer f.telling.Unlock()
	l.list(stored())
	f.add(l)
}

// add adds a handler and reports whether it did: once the fan-out is open, only one that knows what is in the store.
func (f *fanout) add(l *listener) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.opened && !l.listed.Load() {
		return false
	}
	f.listeners = append(slices.Clip(f.listeners), l)
	return true
}

func (f *fanout) leave(l *listener) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listeners = slices.DeleteFunc(slices.Clone(f.listeners), func(o *listener) bool { return o == l })
}

// told returns the handlers that are told of changes: none before open.
func (f *fanout) told() []*listener {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.opened {
		return nil
	}
	return f.listeners
}

// open tells the handlers what is in the store, as if that had just been listed, and from then on each change. Before that
// nobody is told of anything.
func (f *fanout) open(stored func() []any) {
	f.telling.Lock()
	defer f.telling.Unlock()
	f.mu.Lock()
	again := f.opened
	f.opened = true
	f.mu.Unlock()
	if again {
		return
	}
	if listeners := f.told(); len(listeners) > 0 {
		objs := stored()
		for _, l := range listeners {
			l.list(objs)
		}
	}
}

// tell passes a change on.
func (f *fanout) tell(old, new client.Object, listed bool) {
	f.telling.Lock()
	defer f.telling.Unlock()
	for _, l := range f.told() {
		l.handler(old, new, listed)
	}
}

// listener is a handler's place at one part of an informer.
type listener struct {
	part    *part
	handler Handler
	listed  atomic.Bool // it has been told what was in the store when it joined
}

func (l *listener) list(objs []any) {
	for _, o := range objs {
		l.handler(nil, o.(client.Object), true)
	}
	l.listed.Store(true)
}

// Registration is a handler's place at an informer.
type Registration struct {
	listeners []*listener // one at each part
}

// HasSynced reports whether the handler has seen all objects of the first list.
func (r *Registration) HasSynced() bool {
	for _, l := range r.listeners {
		if !l.listed.Load() || !l.part.filled() {
			return false
		}
	}
	return true
}

// Remove ends the calls to the handler. Those under way may still finish.
func (r *Registration) Remove() {
	for _, l := range r.listeners {
		l.part.fanout.leave(l)
	}
}

// deliver adapts a Handler to client-go. An object that a relist returns in the version already known is no change; a
// resync is told apart from that by passing the very same object twice. The objects of a handmade extension API may have
// no version: then each one is told.
func deliver(tell Handler) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, listed bool) { tell(nil, o.(client.Object), listed) },
		UpdateFunc: func(o, n any) {
			old, new := o.(client.Object), n.(client.Object)
			if v := new.GetResourceVersion(); o == n || v == "" || v != old.GetResourceVersion() {
				tell(old, new, false)
			}
		},
		DeleteFunc: func(o any) {
			t, listed := o.(toolscache.DeletedFinalStateUnknown)
			if listed {
				o = t.Obj
			}
			if obj, ok := o.(client.Object); ok {
				tell(obj, nil, listed)
			}
		},
	}
}
