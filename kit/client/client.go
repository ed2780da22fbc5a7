package client

import (
	"maps"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Key names an object: namespace (empty for cluster scope) and name.
type Key = types.NamespacedName

// Object is any API object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Ptr is the pointer type of an API struct T. It lets callers write client.Get[corev1.Pod] and receive *corev1.Pod.
type Ptr[T any] interface {
	*T
	Object
}

// KeyOf returns the key of an object.
func KeyOf(o metav1.Object) Key { return Key{Namespace: o.GetNamespace(), Name: o.GetName()} }

// CacheReader serves reads of kinds that are cached in the form of the example (structured, unstructured or
// metadata-only). ok is false if the kind is not cached in that form; then the read goes to the server. An object that the
// cache does not hold is a NotFound error.
type CacheReader interface {
	GetCached(gvk schema.GroupVersionKind, example Object, key Key) (obj Object, ok bool, err error)
	ListCached(gvk schema.GroupVersionKind, example Object, namespace string) (objs []Object, ok bool, err error)
	// Slimmed reports whether an object from the cache lacks fields, so that writing it back would lose them.
	Slimmed(gvk schema.GroupVersionKind, obj Object) bool
}

// Options configures New.
type Options struct {
	// Scheme maps Go types to kinds. Required.
	Scheme *runtime.Scheme
	// Mapper maps kinds to resources. Required.
	Mapper meta.RESTMapper
	// HTTPClient carries the requests; built from the config when nil.
	HTTPClient *http.Client
}

// Client talks to one API server under one identity. It is safe for concurrent use and immutable.
type Client struct {
	kinds  *kinds
	cache  CacheReader                      // nil: reads go to the server
	live   map[schema.GroupVersionKind]bool // kinds whose reads go to the server although there is a cache
	dryRun bool
}

// New returns a client that reads from and writes to the server that config names.
func New(config *rest.Config, o Options) (*Client, error) {
	k, err := newKinds(config, o)
	if err != nil {
		return nil, err
	}
	return &Client{kinds: k}, nil
}

// WithCache returns a client that reads cached kinds from r.
func (c *Client) WithCache(r CacheReader) *Client {
	d := *c
	d.cache = r
	return &d
}

// Uncached returns a client that reads the given kinds, in every form, from the server even if they are cached.
func (c *Client) Uncached(kinds ...schema.GroupVersionKind) *Client {
	d := *c
	d.live = maps.Clone(c.live)
	for _, gvk := range kinds {
		if d.live == nil {
			d.live = map[schema.GroupVersionKind]bool{}
		}
		d.live[gvk] = true
	}
	return &d
}

// cached reports whether reads of a kind may be answered from the cache.
func (c *Client) cached(gvk schema.GroupVersionKind, call call) bool {
	return c.cache != nil && call.subresource == "" && call.place == nil && !c.live[gvk]
}

// Live returns a client whose reads go to the server. Unlike others it updates objects of kinds that the cache slims, so it
// must only be given objects that it has read itself.
func (c *Client) Live() *Client {
	d := *c
	d.cache = nil
	return &d
}

// DryRun returns a client whose writes are validated by the server and not stored.
func (c *Client) DryRun() *Client {
	d := *c
	d.dryRun = true
	return &d
}

// Mapper returns the mapping between kinds and resources that this client uses.
func (c *Client) Mapper() meta.RESTMapper { return c.kinds.mapper }

// Scheme returns the mapping between Go types and kinds that this client uses.
func (c *Client) Scheme() *runtime.Scheme { return c.kinds.scheme }

// Namespaced reports whether objects of a kind live in namespaces. The error is a NoMatch error where the server does not
// have the kind.
func (c *Client) Namespaced(gvk schema.GroupVersionKind) (bool, error) {
	r, err := c.kinds.resourceFor(gvk, metadataOnly)
	if err != nil {
		return false, err
	}
	return r.namespaced, nil
}

// Forget drops what the client knows of a kind that has gone from the server: a later kind of the same name may be served
// by another resource.
func (c *Client) Forget(gvk schema.GroupVersionKind) { c.kinds.forget(gvk) }

// GVKFor returns the kind of an object: that of its Go type or, for unstructured and metadata-only objects, the one set in
// it.
func (c *Client) GVKFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return c.kinds.gvkFor(obj)
}
