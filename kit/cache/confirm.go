package cache

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"orrery/kit/client"
	"orrery/kit/wire"
)

const (
	// Up to fewObjects are compared without asking first whether that is needed. While the first work of a new leader waits,
	// the extra request is worth it only for more than fewToBegin.
	fewObjects, fewToBegin = 200, 20_000
	// aMoment is how long a cache of many objects, one of which always changes, has to reach a version by itself.
	aMoment = 20 * time.Millisecond
	// lagLimit is how long a cache may lag behind the server before it is listed anew.
	lagLimit = 2 * time.Second
	// New informers wait until those in doubt are confirmed, for firstLimit at most, and then for headStart, so that the
	// reconciles that waited for the confirmation are served first.
	firstLimit, headStart = time.Second, 100 * time.Millisecond
	// confirmPoll is the time between two looks at a cache that lags, confirmRetry the time after a failed request.
	confirmPoll, confirmRetry = 5 * time.Millisecond, 500 * time.Millisecond
)

// Confirm puts all that is cached in doubt, and returns. A process calls it when it has just become the leader: the last
// leader may have written what a slow watch has not shown yet, and acting on the older state would do things twice. Each
// informer counts as not synced until its store has been found to hold all that the server had after the call: either the
// store has reached the version of a consistent list, or its objects are those of one, by name and version. An informer
// that stays behind is listed anew, and so is one that is ahead, because the server's storage has been restored from a
// backup. While the server cannot be asked, the informer stays in doubt, and the controllers that need it wait. Informers
// that are asked for meanwhile start a little later, so that they do not delay this.
func (c *Cache) Confirm(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		return // they will list after this
	}
	var doubts sync.WaitGroup
	first, endFirst := context.WithTimeout(ctx, firstLimit)
	c.first = first
	log := c.o.Log
	for _, i := range c.sorted() {
		for _, p := range i.parts {
			p.doubted.Store(true)
			doubts.Add(1)
			c.running.Go(func() {
				defer doubts.Done()
				p.confirm(ctx, log, func() (lister, error) { return c.names(p.kind, p.namespace) })
			})
		}
	}
	c.running.Go(func() {
		defer endFirst()
		doubts.Wait()
		pause(first, headStart)
	})
}

// lister returns the metadata of the objects that an informer should hold.
type lister func(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)

// names makes the lister of a kind in a namespace, with the selectors of its informer.
func (c *Cache) names(gvk schema.GroupVersionKind, namespace string) (lister, error) {
	example, err := exampleOf(c.o.Client.Scheme(), gvk, MetadataOnly)
	if err != nil {
		return nil, err
	}
	of := c.o.Kinds[gvk]
	lw, _, err := c.o.Client.ListWatch(gvk, example, client.InNamespace(namespace), client.Labels(of.Labels), client.Fields(of.Fields),
		client.Undecoded(nameAndVersion()))
	if err != nil {
		return nil, err
	}
	list := toolscache.ToListerWatcherWithContext(lw)
	return func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		got, err := list.ListWithContext(ctx, o)
		if err != nil {
			return nil, err
		}
		names, ok := got.(*metav1.PartialObjectMetadataList)
		if !ok {
			return nil, fmt.Errorf("list the metadata of %s: got a %T", gvk, got)
		}
		return names, nil
	}, nil
}

// nameAndVersion is what is decoded of the objects in such a list. A new leader reconciles nothing until it has compared
// perhaps ten thousand pods, and decoding the rest of their metadata would take most of that time.
func nameAndVersion() wire.Message {
	return wire.Message{In: map[int]wire.Message{objectMetadata: {Keep: []int{metadataName, metadataNamespace, metadataVersion}}}}
}

// confirm returns when the store is known to be new enough, or ctx has ended.
func (p *part) confirm(ctx context.Context, log klog.Logger, names func() (lister, error)) {
	start, said, anew := time.Now(), false, false
	for ctx.Err() == nil {
		switch {
		case p.missing.Load():
			pause(ctx, confirmRetry)
			continue
		case !p.filled():
			pause(ctx, confirmPoll)
			continue
		}
		lag := 0
		list, err := names()
		if err == nil {
			lag, err = p.compare(ctx, list, fewToBegin, !anew)
		}
		switch {
		case err != nil:
			if !said && ctx.Err() == nil {
				log.Info("Cannot find out whether a cache is up to date; what needs it waits", "kind", p.String(), "reason", err)
				said = true
			}
			pause(ctx, confirmRetry)
			continue
		case lag == 0:
			p.doubted.Store(false)
			log.V(2).Info("Cache is up to date", "kind", p.String(), "objects", p.len(), "took", time.Since(start))
			return
		}
		log.Info("Cache is not what the server has; listing it anew", "kind", p.String(), "objects", lag, "since", start.Format(time.RFC3339))
		anew = true
		p.again.ask()
		for !p.again.done() && ctx.Err() == nil {
			pause(ctx, confirmPoll)
		}
	}
}

// compare returns how many objects the store lacks, holds in an older version, or holds although they are gone. If it
// holds more than few, it first asks for the current version only, which the store may reach by itself. If restored is
// true, a store at a later version than the server lacks everything: what it holds is from before the server's storage was
// restored, and its watch shows no change until the server has reached that version again.
func (p *part) compare(ctx context.Context, names lister, few int, restored bool) (lag int, err error) {
	before := p.version()
	ahead := func(version string) bool {
		v := parseVersion(version)
		return restored && v != 0 && v < before
	}
	var since metav1.ListOptions
	if p.len() > few {
		one, err := names(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return 0, err
		}
		if ahead(one.ResourceVersion) {
			return p.len(), nil
		}
		for by := time.Now().Add(aMoment); time.Now().Before(by) && ctx.Err() == nil; pause(ctx, confirmPoll) {
			if p.reached(one.ResourceVersion) {
				return 0, nil
			}
		}
		// As consistent as the first answer. For an even newer list the server would have to ask its storage again, and wait.
		since = metav1.ListOptions{ResourceVersion: one.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
	}
	all, err := names(ctx, since)
	if err != nil {
		return 0, err
	}
	if ahead(all.ResourceVersion) {
		return max(p.len(), 1), nil
	}
	for by := time.Now().Add(lagLimit); ; pause(ctx, confirmPoll) {
		if p.reached(all.ResourceVersion) {
			return 0, nil
		}
		if lag = p.differs(all); lag == 0 || !time.Now().Before(by) || ctx.Err() != nil {
			return lag, ctx.Err()
		}
	}
}

// reached reports whether the store has reached a version. One that cannot be compared counts as not reached.
func (p *part) reached(version string) bool {
	v := parseVersion(version)
	return v != 0 && p.version() >= v
}

// differs counts the objects that the store holds in an older state than a list.
func (p *part) differs(all *metav1.PartialObjectMetadataList) (n int) {
	listed := make(map[client.Key]struct{}, len(all.Items))
	for at := range all.Items {
		o := &all.Items[at]
		key := client.Key{Namespace: o.Namespace, Name: o.Name}
		listed[key] = struct{}{}
		have, ok := p.get(key)
		switch {
		case ok && have.GetResourceVersion() == o.ResourceVersion:
		case ok && Newer(have.GetResourceVersion(), o.ResourceVersion):
		default:
			n++
		}
	}
	for _, stored := range p.store.List() {
		have := stored.(client.Object)
		key := client.Key{Namespace: have.GetNamespace(), Name: have.GetName()}
		if _, ok := listed[key]; !ok && !Newer(have.GetResourceVersion(), all.ResourceVersion) {
			n++
		}
	}
	return n
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// again makes an informer list anew what it watches, from the server's storage and not from its cache.
type again struct {
	mu      sync.Mutex // guards the fields below
	wanted  bool       // until the list has been made
	expire  bool       // the next watch is answered with "too old", which makes the reflector list
	current watch.Interface
}

// ask ends the current watch, so that a list follows.
func (a *again) ask() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wanted, a.expire = true, true
	if a.current != nil {
		a.current.Stop()
	}
}

// done reports whether the list has been made.
func (a *again) done() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.wanted
}

// list makes a list consistent if one was asked for.
func (a *again) list(o *metav1.ListOptions) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wanted {
		a.expire = false
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
}

func (a *again) listed(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.wanted = false
	}
}

// watch returns an error where the watch must not begin, as a list has to come first. A watch that begins with all objects
// counts as a list.
func (a *again) watch(o *metav1.ListOptions) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.wanted:
	case o.SendInitialEvents != nil:
		a.expire = false
		o.ResourceVersion = ""
	case a.expire:
		a.expire = false
		return apierrors.NewResourceExpired("the cache has fallen behind")
	}
	return nil
}

// watching notes the current watch.
func (a *again) watching(w watch.Interface, err error, withObjects bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		return
	}
	a.current = w
	if withObjects {
		a.wanted = false
	}
}
