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

// Slimming says what of a kind is not kept. A slimmed object is never updated whole, since that would erase on the
// server what is missing here.
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

// Kind says which objects of a kind are cached. Of those that are not, reads through the cache know nothing.
type Kind struct {
	// Namespaces takes the place of those in Options; none means those.
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
	// Kinds holds what is particular to a kind, in all its forms.
	Kinds map[schema.GroupVersionKind]Kind
	// Slim holds, per kind, what to drop beside managed fields. It applies to the structured form.
	Slim map[schema.GroupVersionKind]Slimming
	// Resync is the period after which handlers see every object again, a tenth more or less so that the kinds do not come
	// all at once; 0 means never.
	Resync time.Duration
	// Await makes an informer also of a structured kind that the server does not have, which waits for it; otherwise to ask
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
	ctx       context.Context // of the informers; nil: they do not run
	opened    bool            // handlers are told
	first     context.Context // until its end those that are in doubt come before new informers; nil: none is
	informers map[informerID]*Informer
	measured  map[schema.GroupVersionResource]bool // resources whose metrics are taken by an informer
	running   sync.WaitGroup
}

// New returns a cache that does nothing until Start.
func New(o Options) *Cache {
	return &Cache{o: o, informers: map[informerID]*Informer{}, measured: map[schema.GroupVersionResource]bool{}}
}

// Start runs every informer asked for so far and, at once, each one asked for later, and has their handlers told. They
// end with ctx. After Warm it opens what runs already: handlers hear of all that is cached by then as if it had just been
// listed.
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

// Warm runs every informer asked for so far without a word to any handler, so that Start later finds their stores filled.
// They end with ctx. Nothing piles up in the meantime but the objects themselves: queues stay empty.
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

// Started reports whether Start has been called. A controller that caches kinds of its own finding waits for it: by then
// the others have said which kinds they need structured.
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

// Remove stops the informer of a kind and forgets it, for kinds that have gone from the server. The structured
// informers that controllers hold are never removed.
func (c *Cache) Remove(gvk schema.GroupVersionKind, form Form) {
	c.mu.Lock()
	i := c.informers[informerID{gvk, form}]
	if form != Structured {
		delete(c.informers, informerID{gvk, form})
	}
	c.mu.Unlock()
	if form == Structured {
		return
	}
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
