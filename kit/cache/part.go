package cache

import (
	"context"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"orrery/kit/client"
)

// part is what an informer lists and watches in one go: the objects of one namespace, or of all.
type part struct {
	kind       schema.GroupVersionKind
	namespace  string // empty: all
	store      toolscache.Indexer
	controller toolscache.Controller // keeps the store
	full       <-chan struct{}       // closed when the store holds the first list
	stopped    atomic.Bool
	missing    atomic.Bool // the server does not have the kind
	doubted    atomic.Bool // the store may be out of date; see Cache.Confirm
	failed     atomic.Pointer[failure]
	fanout     fanout
	barrier    barrier
	again      again
	streamed   streamed
}

// failure is why a list or watch does not work, and since when.
type failure struct {
	text  string
	since time.Time
}

// covers reports whether the part holds the objects of a namespace.
func (p *part) covers(namespace string) bool { return p.namespace == "" || p.namespace == namespace }

func (p *part) len() int { return len(p.store.ListKeys()) }

func (p *part) get(key client.Key) (client.Object, bool) {
	obj, ok, err := p.store.GetByKey(storeKey(key))
	if err != nil || !ok {
		return nil, false
	}
	return obj.(client.Object), true
}

// filled reports whether the first list is in the store. It takes no lock, as it may be called by handlers.
func (p *part) filled() bool {
	select {
	case <-p.full:
		return true
	default:
		return false
	}
}

// tell passes on what has changed in the store.
func (p *part) tell(old, new client.Object, listed bool) {
	p.barrier.event(old, new)
	p.fanout.tell(old, new, listed)
}

// failing returns since when the list or watch has failed, and the last reason; "" if it works.
func (p *part) failing() (since time.Time, reason string) {
	if p.missing.Load() {
		return time.Time{}, "the API server does not have this kind"
	}
	if f := p.failed.Load(); f != nil {
		return f.since, f.text
	}
	return time.Time{}, ""
}

// note keeps the result of a list or watch call. Having to list again is not a failure, and neither is being stopped.
func (p *part) note(ctx context.Context, err error) {
	switch {
	case err == nil:
		p.failed.Store(nil)
	case ctx.Err() == nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err):
		f := &failure{err.Error(), time.Now()}
		if old := p.failed.Load(); old != nil {
			f.since = old.since
		}
		p.failed.Store(f)
	}
}

// noting wraps the list and watch calls of a part: their results are noted, a list anew that was asked for is made, and
// watches that begin with all objects are supervised.
func (p *part) noting(lw toolscache.ListerWatcher) toolscache.ListerWatcher {
	inner := toolscache.ToListerWatcherWithContext(lw)
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			p.again.list(&o)
			list, err := inner.ListWithContext(ctx, o)
			p.note(ctx, err)
			p.again.listed(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil && p.streamed.listed() {
				klog.FromContext(ctx).V(2).Info("The server did not say which was the last object of a watch; listing them", "kind", p.String())
				return nil, errStreamed
			}
			if err := p.again.watch(&o); err != nil {
				return nil, err
			}
			w, err := inner.WatchWithContext(ctx, o)
			p.note(ctx, err)
			if err == nil && o.SendInitialEvents != nil {
				w = p.streamed.follow(w, p.controller.LastSyncResourceVersion)
			}
			p.again.watching(w, err, o.SendInitialEvents != nil)
			return w, err
		},
	}
}

// String returns kind and group version, for logs.
func (p *part) String() string { return kindText(p.kind) }

func kindText(gvk schema.GroupVersionKind) string {
	return gvk.Kind + "." + gvk.GroupVersion().String()
}

func storeKey(key client.Key) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Namespace + "/" + key.Name
}
