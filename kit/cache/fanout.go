package cache

import (
	"slices"
	"sync"
	"sync/atomic"

	toolscache "k8s.io/client-go/tools/cache"

	"orrery/kit/client"
)

// fanout tells the handlers of an informer what changes, from the goroutine that keeps its store. A goroutine and a buffer
// for each handler would cost more than the handlers do: they only map an object to keys, so none holds up another.
type fanout struct {
	// telling is held while handlers are told of a change, and while a late handler is told what is in the store: no handler
	// sees a change before the state that it changes.
	telling sync.Mutex

	mu       sync.Mutex      // guards the fields below; no handler is called while holding it
	opened   bool            // handlers are told of changes
	handlers []*Registration // replaced and never modified
}

// join adds a handler. Once the fan-out is open, the handler is told what is in the store before join returns.
func (f *fanout) join(r *Registration, stored func() []any) {
	if f.add(r) {
		return
	}
	f.telling.Lock()
	defer f.telling.Unlock()
	r.list(stored())
	f.add(r)
}

// add adds a handler and reports whether it did: once the fan-out is open, only one that knows what is in the store.
func (f *fanout) add(r *Registration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.opened && !r.listed.Load() {
		return false
	}
	f.handlers = append(slices.Clip(f.handlers), r)
	return true
}

func (f *fanout) leave(r *Registration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handlers = slices.DeleteFunc(slices.Clone(f.handlers), func(o *Registration) bool { return o == r })
}

// told returns the handlers that are told of changes: none before open.
func (f *fanout) told() []*Registration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.opened {
		return nil
	}
	return f.handlers
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
	if handlers := f.told(); len(handlers) > 0 {
		objs := stored()
		for _, r := range handlers {
			r.list(objs)
		}
	}
}

// tell passes a change on.
func (f *fanout) tell(old, new client.Object, listed bool) {
	f.telling.Lock()
	defer f.telling.Unlock()
	for _, r := range f.told() {
		r.handler(old, new, listed)
	}
}

// Registration is a handler's place at an informer.
type Registration struct {
	informer *Informer
	handler  Handler
	listed   atomic.Bool     // it has been told what was in the store when it joined
	parts    []*Registration // if the informer is made of parts
}

func (r *Registration) list(objs []any) {
	for _, o := range objs {
		r.handler(nil, o.(client.Object), true)
	}
	r.listed.Store(true)
}

// HasSynced reports whether the handler has seen all objects of the first list.
func (r *Registration) HasSynced() bool {
	if r.parts == nil {
		return r.listed.Load() && r.informer.filled()
	}
	return !slices.ContainsFunc(r.parts, func(p *Registration) bool { return !p.HasSynced() })
}

// Remove ends the calls to the handler. Those under way may still finish.
func (r *Registration) Remove() {
	for _, p := range r.parts {
		p.Remove()
	}
	if r.parts == nil {
		r.informer.fanout.leave(r)
	}
}

// deliver adapts a Handler to client-go. An object that a relist returns in the version already known is no change; a
// resync is told apart from that by passing the very same object twice.
func deliver(tell Handler) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, listed bool) { tell(nil, o.(client.Object), listed) },
		UpdateFunc: func(o, n any) {
			old, new := o.(client.Object), n.(client.Object)
			if o == n || old.GetResourceVersion() != new.GetResourceVersion() {
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
