package cache

import (
	"slices"
	"sync"
	"sync/atomic"

	toolscache "k8s.io/client-go/tools/cache"

	"orrery/kit/client"
)

// fanout is the one handler through which those that were there before the informer began hear of its changes. A
// handler of its own costs two goroutines and a buffer, and a change wakes both, which for pods, with a handful of
// controllers each, is more than the handlers themselves do. They only map an object to keys, so none holds up another.
type fanout struct {
	handle   toolscache.ResourceEventHandlerRegistration
	handlers atomic.Pointer[[]*Handler]

	mu      sync.Mutex // guards changes of the fields, and started
	started bool
}

// join adds a handler and reports whether it was in time: one that comes after the start must be told what is in the
// store already, which the informer does for a handler of its own.
// woken is called before the handlers.
func (f *fanout) join(shared toolscache.SharedIndexInformer, woken func(old, new client.Object), h *Handler) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.started {
		return false, nil
	}
	if f.handle == nil {
		handle, err := shared.AddEventHandler(deliver(func(old, new client.Object, listed bool) {
			woken(old, new)
			for _, h := range *f.handlers.Load() {
				(*h)(old, new, listed)
			}
		}))
		if err != nil {
			return false, err
		}
		f.handle = handle
		f.handlers.Store(new([]*Handler))
	}
	f.replace(append(slices.Clone(*f.handlers.Load()), h))
	return true, nil
}

func (f *fanout) leave(h *Handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replace(slices.DeleteFunc(slices.Clone(*f.handlers.Load()), func(o *Handler) bool { return o == h }))
}

func (f *fanout) replace(handlers []*Handler) { f.handlers.Store(&handlers) }

// close ends the time to join; the informer runs after it.
func (f *fanout) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = true
}

// used reports whether any handler has joined.
func (f *fanout) used() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.handle != nil
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
