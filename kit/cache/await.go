package cache

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"orrery/kit/client"
)

// awaitPoll is how often the server is asked whether it has a kind by now.
const awaitPoll = 10 * time.Second

// awaits reports whether err says that the server lacks a kind that this cache waits for.
func (c *Cache) awaits(form Form, err error) bool {
	return err != nil && c.o.Await && form == Structured && client.IsNotServed(err)
}

// await returns the list and watch calls for a kind that the server does not have yet, whose first call blocks until the
// server has it, and the resource that is likely to serve it. It logs once that the kind is missing.
func (c *Cache) await(p *part, find func() (toolscache.ListerWatcher, schema.GroupVersionResource, error)) (toolscache.ListerWatcher, schema.GroupVersionResource) {
	c.o.Log.Info("The API server does not have a kind; what needs it waits", "kind", p.String())
	resource, _ := meta.UnsafeGuessKindToResource(p.kind)
	p.missing.Store(true)
	a := &awaited{part: p, find: find, log: c.o.Log}
	return &toolscache.ListWatch{ListWithContextFunc: a.list, WatchFuncWithContext: a.watch}, resource
}

// awaited lists and watches a kind as soon as the server has it.
type awaited struct {
	part *part
	find func() (toolscache.ListerWatcher, schema.GroupVersionResource, error)
	log  klog.Logger

	mu    sync.Mutex // guards found
	found toolscache.ListerWatcherWithContext
}

func (a *awaited) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	lw, err := a.wait(ctx)
	if err != nil {
		return nil, err
	}
	return lw.ListWithContext(ctx, o)
}

func (a *awaited) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	lw, err := a.wait(ctx)
	if err != nil {
		return nil, err
	}
	return lw.WatchWithContext(ctx, o)
}

// wait returns once the server has the kind, or with an error once ctx has ended. Any other error is retried.
func (a *awaited) wait(ctx context.Context) (toolscache.ListerWatcherWithContext, error) {
	for {
		a.mu.Lock()
		found := a.found
		a.mu.Unlock()
		if found != nil {
			return found, nil
		}
		lw, _, err := a.find()
		if err == nil {
			a.mu.Lock()
			a.found = toolscache.ToListerWatcherWithContext(lw)
			a.mu.Unlock()
			a.part.missing.Store(false)
			a.log.Info("The API server has the kind now", "kind", a.part.String())
			continue
		}
		pause(ctx, awaitPoll)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}
