package cache

import (
	"slices"
	"sync"
	"sync/atomic"

	toolscache "k8s.io/client-go/tools/cache"

	"orrery/kit/client"
)

// fanout is the one handler through which those that were there before the informer was opened hear of its changes. A
// handler of its own costs two goroutines and a buffer, and a change wakes both, which for pods, with a handful of
// controllers each, is more than the handlers themselves do. They only map an object to keys, so none holds up another.
type fanout struct {
	handlers atomic.Pointer[[]*Handler]

	mu     sync.Mutex // guards changes of handlers, and the fields below
	handle toolscache.ResourceEventHandlerRegistration
	opened bool
}

// join adds a handler and reports whether it was in time: one that comes after the opening must be told what is in the
// store already, which the informer does for a handler of its own.
func (f *fanout) join(h *Handler) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.opened {
		return false
	}
	f.replace(append(f.list(), h))
	return true
}

func (f *fanout) leave(h *Handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replace(slices.DeleteFunc(f.list(), func(o *Handler) bool { return o == h }))
}

// list returns a copy of the handlers. f.mu is held.
func (f *fanout) list() []*Handler {
	if all := f.handlers.Load(); all != nil {
		return slices.Clone(*all)
	}
	return nil
}

func (f *fanout) replace(handlers []*Handler) { f.handlers.Store(&handlers) }

// open ends the time to join and has the informer tell those that did: what is in its store by now, as if that had just
// been listed, and then each change. woken is called before the handlers.
func (f *fanout) open(shared toolscache.SharedIndexInformer, woken func(old, new client.Object)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.opened {
		return
	}
	f.opened = true
	if f.handlers.Load() == nil {
		return
	}
	// It fails where the informer has been stopped: then nobody waits for it any more.
	f.handle, _ = shared.AddEventHandler(deliver(func(old, new client.Object, listed bool) {
		woken(old, new)
		for _, h := range *f.handlers.Load() {
			(*h)(old, new, listed)
		}
	}))
}

// used reports whether the informer tells any handler that has joined.
func (f *fanout) used() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.handle != nil
}

// synced reports whether all that was in the store when it was opened has been told.
func (f *fanout) synced() bool {
	f.mu.Lock()
	handle := f.handle
	f.mu.Unlock()
	return handle != nil && handle.HasSynced()
}

// deliver makes an informer's handler of ours.
func deliver(h Handler) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(o any, listed bool) { h(nil, o.(client.Object), listed) },
		UpdateFunc: func(old, new any) { h(old.(client.Object), new.(client.Object), false) },
		DeleteFunc: func(o any) {
			t, listed := o.(toolscache.DeletedFinalStateUnknown)
			if listed {
				o = t.Obj
			}
			if obj, ok := o.(client.Object); ok {
				h(obj, nil, listed)
			}
		},
	}
}
