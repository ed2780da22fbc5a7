package cache

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/client"
)

// Informer is the cached state of one kind and the stream of its changes.
type Informer struct {
	GVK      schema.GroupVersionKind
	Form     Form
	resource schema.GroupVersionResource
	labels   labels.Selector // of the objects that are cached; nil: all
	parts    []*part         // one for all namespaces, or one for each of some; never empty
	stop     context.CancelFunc
	catchUps catchUps
}

// Handler receives the changes of a kind: old is nil for a create, new is nil for a delete.
// listed is true if the change was not watched but inferred from a list: an object of the first list, or one that is
// missing from a later list. A list may be older than what was watched before it.
type Handler func(old, new client.Object, listed bool)

// Resource returns the resource that serves the kind.
func (i *Informer) Resource() schema.GroupVersionResource { return i.resource }

// part returns the part that holds a namespace, or nil if that namespace is not cached.
func (i *Informer) part(namespace string) *part {
	for _, p := range i.parts {
		if p.covers(namespace) {
			return p
		}
	}
	return nil
}

// Covers reports whether objects of a namespace are cached; those without a namespace always are.
func (i *Informer) Covers(namespace string) bool {
	return namespace == "" || i.part(namespace) != nil
}

// Concerns reports whether a write is one that this cache will show: it covers the namespace, and the object has the
// labels that it selects, or had them until then.
func (i *Informer) Concerns(w client.Write) bool {
	if !i.Covers(w.Key.Namespace) {
		return false
	}
	if i.labels == nil || w.Deleted || i.labels.Matches(labels.Set(w.Labels)) {
		return true
	}
	_, held := i.Get(w.Key)
	return held
}

// Seen reports whether the store shows a write: for a create or update, whether the store or the object in it has
// reached the resourceVersion that the server returned; for a delete, whether the object is gone, replaced or, unless the
// server said that it is gone, marked for deletion. A stopped informer shows all it ever will, and so does one that does
// not cover the namespace.
func (i *Informer) Seen(w client.Write) bool {
	p := i.part(w.Key.Namespace)
	return p == nil || p.seen(w)
}

// WhenSeen calls wake once, from the informer's goroutine or this one, when the store shows the write. The returned
// function gives up waiting. wake must not block.
func (i *Informer) WhenSeen(w client.Write, wake func()) (cancel func()) {
	if p := i.part(w.Key.Namespace); p != nil {
		return p.whenSeen(w, wake)
	}
	wake()
	return func() {}
}

// HasSynced reports whether the first list is in the store, and the store is not in doubt; see Cache.Confirm.
func (i *Informer) HasSynced() bool {
	for _, p := range i.parts {
		if !p.filled() || p.doubted.Load() {
			return false
		}
	}
	return true
}

// Missing reports whether the server does not have the kind.
func (i *Informer) Missing() bool { return i.parts[0].missing.Load() }

// LastError returns the last failure of the list or watch, or "" if it has worked since.
func (i *Informer) LastError() string {
	_, text := i.Failing()
	return text
}

// Failing returns since when the list or watch has failed, and the last reason; "" if it works.
func (i *Informer) Failing() (since time.Time, reason string) {
	for _, p := range i.parts {
		since, reason := p.failing()
		switch {
		case reason == "":
		case len(i.parts) == 1:
			return since, reason
		default:
			return since, reason + " (namespace " + p.namespace + ")"
		}
	}
	return time.Time{}, ""
}

// AddHandler calls h for every change, one after another. All handlers of an informer are called in turn from one goroutine
// for each namespace, so none may block. A handler that is added after the cache was started is told what is in the store
// before AddHandler returns. The caller must guard h against panics and hold no lock that h takes.
func (i *Informer) AddHandler(h Handler) (*Registration, error) {
	if len(i.parts) > 1 {
		h = oneAtATime(h)
	}
	r := &Registration{}
	for _, p := range i.parts {
		if p.stopped.Load() {
			r.Remove()
			return nil, fmt.Errorf("%s is not cached any more", i)
		}
		at := &listener{part: p, handler: h}
		p.fanout.join(at, p.store.List)
		r.listeners = append(r.listeners, at)
	}
	return r, nil
}

// oneAtATime keeps the parts of an informer, which run concurrently, from calling a handler at the same time.
func oneAtATime(h Handler) Handler {
	var one sync.Mutex
	return func(old, new client.Object, listed bool) {
		one.Lock()
		defer one.Unlock()
		h(old, new, listed)
	}
}

// String returns kind and group version, for logs.
func (i *Informer) String() string { return kindText(i.GVK) }
