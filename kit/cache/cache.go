package cache

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"orrery/kit/client"
	"orrery/kit/wire"
)

// Form is the representation in which a kind is cached.
type Form int

// The three forms of a cached kind.
const (
	Structured Form = iota
	Unstructured
	MetadataOnly
)

// String returns the form as the debug pages show it.
func (f Form) String() string { return [...]string{"structured", "unstructured", "metadata-only"}[f] }

// Slimming says which fields of a kind are not kept. A slimmed object is never updated whole, since that would erase the
// missing fields on the server.
type Slimming struct {
	// Drop removes fields from an object before it is stored. It owns the object.
	Drop func(client.Object)
	// Whole picks, by what no Drop removes, objects that are kept whole and may be updated; nil picks none.
	Whole func(client.Object) bool
	// Undecoded is a part of what Drop removes, as protobuf has it, that need not even be decoded. Objects that are kept
	// whole must not have it.
	Undecoded wire.Message
}

func (s Slimming) applies(obj client.Object) bool {
	return s.Drop != nil && (s.Whole == nil || !s.Whole(obj))
}

// Kind says which objects of a kind are cached. To reads through the cache, the others do not exist.
type Kind struct {
	// Namespaces overrides those of Options, unless it is empty.
	Namespaces []string
	// Labels and Fields are selectors in their text form.
	Labels, Fields string
}

// Options configures New.
type Options struct {
	// Client lists and watches. Required.
	Client *client.Client
	// Namespaces restricts the cache to some namespaces; none means all. Objects without a namespace are always cached.
	Namespaces []string
	// Kinds restricts single kinds further, in all their forms.
	Kinds map[schema.GroupVersionKind]Kind
	// Slim holds, per kind, what to drop beside managed fields. It applies to the structured form.
	Slim map[schema.GroupVersionKind]Slimming
	// Resync is the period after which handlers see every object again; 0 means never. It is jittered by a tenth, so that
	// the kinds do not all come at once.
	Resync time.Duration
	// Await allows informers of structured kinds that the server does not have: they wait until it does. Otherwise asking
	// for one is an error.
	Await bool
	// Name is the process's name in the metrics of its informers; nil publishes none.
	Name *toolscache.InformerName
	// Log receives watch errors.
	Log klog.Logger
}

type informerID struct {
	gvk  schema.GroupVersionKind
	form Form
}

// Cache owns the informers. It is safe for concurrent use.
type Cache struct {
	o Options

	mu        sync.Mutex      // guards the fields below
	ctx       context.Context // of the informers; nil: they do not run yet
	opened    bool            // handlers are told of changes
	first     context.Context // set by Confirm: new informers wait for its end; nil: they wait for nothing
	informers map[informerID]*Informer
	measured  map[schema.GroupVersionResource]bool // resources of which an informer publishes metrics
	running   sync.WaitGroup
}

// New returns a cache that does nothing until Start.
func New(o Options) *Cache {
	return &Cache{o: o, informers: map[informerID]*Informer{}, measured: map[schema.GroupVersionResource]bool{}}
}

// Start runs every informer asked for so far and, from then on, each one as it is asked for, until ctx ends. Handlers are
// told of changes. After Warm the informers run already; their handlers are told of all that is cached by then as if it
// had just been listed.
func (c *Cache) Start(ctx context.Context) {
	var opening sync.WaitGroup
	defer opening.Wait() // without the lock, which handlers may need
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opened {
		return
	}
	c.opened = true
	if c.ctx != nil {
		for _, i := range c.sorted() {
			opening.Go(i.open)
		}
		return
	}
	c.ctx = ctx
	for _, i := range c.sorted() {
		c.run(i)
	}
}

// Warm runs every informer asked for so far, until ctx ends, without telling any handler, so that a later Start finds the
// stores filled. Nothing piles up in the meantime but the objects themselves: queues stay empty.
func (c *Cache) Warm(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx != nil {
		return
	}
	c.ctx = ctx
	for _, i := range c.sorted() {
		c.run(i)
	}
}

// sorted returns the informers by kind. c.mu is held.
func (c *Cache) sorted() []*Informer {
	var out []*Informer
	for _, id := range slices.SortedFunc(maps.Keys(c.informers), compareIDs) {
		out = append(out, c.informers[id])
	}
	return out
}

// Started reports whether Start has been called. A controller that discovers the kinds to cache waits for it: by then the
// other controllers have asked for those that they need structured.
func (c *Cache) Started() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened
}

// Wait blocks until all informers have ended.
func (c *Cache) Wait() { c.running.Wait() }

// Informer returns the informer of a kind, made at the first call. A request for metadata of a kind that is already
// cached structured gets that informer: its objects carry the same metadata.
func (c *Cache) Informer(gvk schema.GroupVersionKind, form Form) (*Informer, error) {
	if i := c.Existing(gvk, form); i != nil {
		return i, nil
	}
	return c.informer(informerID{gvk, form})
}

// informer returns the informer of a kind in just this form.
func (c *Cache) informer(id informerID) (*Informer, error) {
	if i := c.exactly(id); i != nil {
		return i, nil
	}
	// Finding the resource of a kind may ask the server, which must not hold up readers.
	i, err := c.newInformer(id.gvk, id.form)
	if err != nil {
		return nil, fmt.Errorf("cache %s: %w", id.gvk, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if first := c.informers[id]; first != nil {
		return first, nil
	}
	c.informers[id] = i
	if c.ctx != nil {
		c.run(i)
	}
	return i, nil
}

// Existing returns the informer that serves the kind in the form, or nil if there is none yet.
func (c *Cache) Existing(gvk schema.GroupVersionKind, form Form) *Informer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lookup(gvk, form)
}

// Serving returns the informers in which changes of a kind show up: one for each form in which it is cached.
func (c *Cache) Serving(gvk schema.GroupVersionKind) []*Informer {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*Informer
	for _, form := range [...]Form{Structured, MetadataOnly, Unstructured} {
		if i := c.informers[informerID{gvk, form}]; i != nil {
			out = append(out, i)
		}
	}
	return out
}

// Remove stops and forgets the informer of a kind that has gone from the server. Structured informers stay, as controllers
// hold on to them.
func (c *Cache) Remove(gvk schema.GroupVersionKind, form Form) {
	if form == Structured {
		return
	}
	id := informerID{gvk, form}
	c.mu.Lock()
	i := c.informers[id]
	delete(c.informers, id)
	c.mu.Unlock()
	if i != nil && i.stop != nil {
		i.stop()
	}
	c.o.Client.Forget(gvk)
}

// Informers returns all informers, sorted by kind.
func (c *Cache) Informers() []*Informer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sorted()
}

// GetCached implements client.CacheReader.
func (c *Cache) GetCached(gvk schema.GroupVersionKind, example client.Object, key client.Key) (client.Object, bool, error) {
	i := c.reading(gvk, example, key.Namespace)
	if i == nil {
		return nil, false, nil
	}
	obj, ok := i.Get(key)
	if !ok {
		return nil, true, apierrors.NewNotFound(i.resource.GroupResource(), key.Name)
	}
	return obj, true, nil
}

// ListCached implements client.CacheReader.
func (c *Cache) ListCached(gvk schema.GroupVersionKind, example client.Object, namespace string) ([]client.Object, bool, error) {
	i := c.reading(gvk, example, namespace)
	if i == nil {
		return nil, false, nil
	}
	return i.List(namespace), true, nil
}

// reading returns the informer that can serve reads of a kind in the form of the example, or nil.
func (c *Cache) reading(gvk schema.GroupVersionKind, example client.Object, namespace string) *Informer {
	i := c.exactly(informerID{gvk, formOf(example)})
	if i == nil || !i.HasSynced() || !i.Covers(namespace) {
		return nil
	}
	return i
}

func (c *Cache) exactly(id informerID) *Informer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.informers[id]
}

// Slimmed implements client.CacheReader.
func (c *Cache) Slimmed(gvk schema.GroupVersionKind, obj client.Object) bool {
	return c.o.Slim[gvk].applies(obj) && c.Existing(gvk, Structured) != nil
}

func (c *Cache) lookup(gvk schema.GroupVersionKind, form Form) *Informer {
	if i := c.informers[informerID{gvk, form}]; i != nil {
		return i
	}
	if form == MetadataOnly {
		return c.informers[informerID{gvk, Structured}]
	}
	return nil
}

func (c *Cache) transform(gvk schema.GroupVersionKind, form Form) toolscache.TransformFunc {
	var slim Slimming
	if form == Structured {
		slim = c.o.Slim[gvk]
	}
	return func(in any) (any, error) {
		obj, ok := in.(client.Object)
		if !ok {
			return in, nil // a tombstone: its object went through here when it was stored
		}
		if obj.GetManagedFields() != nil {
			obj.SetManagedFields(nil)
		}
		if m, ok := in.(*metav1.PartialObjectMetadata); ok {
			m.SetGroupVersionKind(gvk)
		}
		if slim.applies(obj) {
			slim.Drop(obj)
		}
		return obj, nil
	}
}
