package cache

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"orrery/kit/client"
)

// Informer is the cached state of one kind and the stream of its changes.
type Informer struct {
	GVK        schema.GroupVersionKind
	Form       Form
	resource   schema.GroupVersionResource
	namespace  string          // empty: all
	labels     labels.Selector // of the objects that are cached; nil: all
	store      toolscache.Indexer
	controller toolscache.Controller // keeps the store
	full       <-chan struct{}       // closed when the store holds the first list
	stopped    atomic.Bool
	fanout     fanout
	barrier    barrier
	stop       context.CancelFunc
	failing    atomic.Pointer[failure]
	missing    atomic.Bool // the server does not have the kind
	doubted    atomic.Bool // its store may be out of date; see Cache.Confirm
	again      again
	streamed   streamed
	catchUps   catchUps
	parts      []*Informer // one for each of several namespaces; an informer that has parts has no store of its own
}

// failure is why a list or watch does not work, and since when.
type failure struct {
	text  string
	since time.Time
}

// Handler receives the changes of a kind: old is nil for a create, new is nil for a delete.
// listed is true if the change was not watched but inferred from a list: an object of the first list, or one that is
// missing from a later list. A list may be older than what was watched before it.
type Handler func(old, new client.Object, listed bool)

// Resource returns the resource that serves the kind.
func (i *Informer) Resource() schema.GroupVersionResource { return i.resource }

// Covers reports whether objects of a namespace are cached; those without a namespace always are.
func (i *Informer) Covers(namespace string) bool {
	if i.parts != nil {
		return namespace == "" || i.part(namespace) != nil
	}
	return i.namespace == "" || namespace == "" || i.namespace == namespace
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

// HasSynced reports whether the first list is in the store, and the store is not in doubt; see Cache.Confirm.
func (i *Informer) HasSynced() bool {
	for _, p := range i.parts {
		if !p.HasSynced() {
			return false
		}
	}
	return i.parts != nil || i.filled() && !i.doubted.Load()
}

// filled reports whether the first list is in the store. It takes no lock, as it may be called by handlers.
func (i *Informer) filled() bool {
	select {
	case <-i.full:
		return true
	default:
		return false
	}
}

// LastError returns the last failure of the list or watch, or "" if it has worked since.
func (i *Informer) LastError() string {
	_, text := i.Failing()
	return text
}

// Failing returns since when the list or watch has failed, and the last reason; "" if it works.
func (i *Informer) Failing() (since time.Time, reason string) {
	for _, p := range i.parts {
		if since, reason := p.Failing(); reason != "" {
			return since, reason + " (namespace " + p.namespace + ")"
		}
	}
	if i.Missing() {
		return time.Time{}, "the API server does not have this kind"
	}
	if f := i.failing.Load(); f != nil {
		return f.since, f.text
	}
	return time.Time{}, ""
}

// note keeps the result of a list or watch call. Having to list again is not a failure, and neither is being stopped.
func (i *Informer) note(ctx context.Context, err error) {
	switch {
	case err == nil:
		i.failing.Store(nil)
	case ctx.Err() == nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err):
		f := &failure{err.Error(), time.Now()}
		if old := i.failing.Load(); old != nil {
			f.since = old.since
		}
		i.failing.Store(f)
	}
}

// noting wraps the list and watch calls of an informer: their results are noted, a list anew that was asked for is made,
// and watches that begin with all objects are supervised.
func (i *Informer) noting(lw toolscache.ListerWatcher) toolscache.ListerWatcher {
	inner := toolscache.ToListerWatcherWithContext(lw)
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			i.again.list(&o)
			list, err := inner.ListWithContext(ctx, o)
			i.note(ctx, err)
			i.again.listed(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil && i.streamed.listed() {
				klog.FromContext(ctx).V(2).Info("The server did not say which was the last object of a watch; listing them", "kind", i.String())
				return nil, errStreamed
			}
			if err := i.again.watch(&o); err != nil {
				return nil, err
			}
			w, err := inner.WatchWithContext(ctx, o)
			i.note(ctx, err)
			if err == nil && o.SendInitialEvents != nil {
				w = i.streamed.follow(w, i.controller.LastSyncResourceVersion)
			}
			i.again.watching(w, err, o.SendInitialEvents != nil)
			return w, err
		},
	}
}

// Get returns the object of that key.
func (i *Informer) Get(key client.Key) (client.Object, bool) {
	obj, ok := i.get(key)
	if !ok {
		return nil, false
	}
	return obj.(client.Object), true
}

// List returns the objects of a namespace, or all of them if it is empty.
func (i *Informer) List(namespace string) []client.Object {
	var raw []any
	if namespace == "" {
		raw = i.all()
	} else {
		raw, _ = i.by(toolscache.NamespaceIndex, namespace)
	}
	out := make([]client.Object, len(raw))
	for n, o := range raw {
		out[n] = o.(client.Object)
	}
	return out
}

// AddHandler calls h for every change, one after another. All handlers of an informer are called in turn from one goroutine,
// so none may block. A handler that is added after the cache was started is told what is in the store before AddHandler
// returns. The caller must guard h against panics and hold no lock that h takes.
func (i *Informer) AddHandler(h Handler) (*Registration, error) {
	if i.parts != nil {
		return i.addToParts(h)
	}
	if i.stopped.Load() {
		return nil, fmt.Errorf("%s is not cached any more", i)
	}
	r := &Registration{informer: i, handler: h}
	i.fanout.join(r, i.all)
	return r, nil
}

// tell passes on what has changed in the store.
func (i *Informer) tell(old, new client.Object, listed bool) {
	i.barrier.event(old, new)
	i.fanout.tell(old, new, listed)
}

func storeKey(key client.Key) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Namespace + "/" + key.Name
}

// String returns kind and group version, for logs.
func (i *Informer) String() string { return i.GVK.Kind + "." + i.GVK.GroupVersion().String() }
