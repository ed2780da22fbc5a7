package client

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery/kit/wire"
)

// Option adjusts one call. An option that does not concern the call is ignored.
type Option func(*call)

type call struct {
	gvk         schema.GroupVersionKind
	place       *place // nil: the resource that the mapper has for the kind
	subresource string
	namespace   string
	labels      string
	fields      string
	limit       int64
	token       string // of the page to begin with
	version     string // the least resourceVersion of a read
	del         metav1.DeleteOptions
	manager     string // of fields
	force       *bool
	brief       bool
	undecoded   *wire.Message
}

func newCall(opts []Option) call {
	var c call
	for _, o := range opts {
		o(&c)
	}
	return c
}

// Kind names the kind to read, for unstructured and metadata-only objects, or the parent of a subresource whose objects
// are of another kind.
func Kind(gvk schema.GroupVersionKind) Option { return func(c *call) { c.gvk = gvk } }

// Resource names the resource under which an object is read or written, where its kind is not enough: a server may have
// two resources of one kind, or have moved a kind that the mapper still knows elsewhere. Such a call never reads from a
// cache, and the control loop does not wait for a cache after it.
func Resource(gvr schema.GroupVersionResource, namespaced bool) Option {
	return func(c *call) { c.place = &place{gvr, namespaced} }
}

// Subresource directs the call to a subresource such as "status", "scale" or "finalize".
func Subresource(name string) Option { return func(c *call) { c.subresource = name } }

// Status directs the call to the status subresource.
func Status(c *call) { c.subresource = "status" }

// InNamespace restricts a list to one namespace.
func InNamespace(ns string) Option { return func(c *call) { c.namespace = ns } }

// Labels restricts a list by a label selector in its text form.
func Labels(selector string) Option { return func(c *call) { c.labels = selector } }

// Fields restricts a list by a field selector in its text form. Reads from the server only.
func Fields(selector string) Option { return func(c *call) { c.fields = selector } }

// Limit sets the page size of a list from the server (default 500), all pages of which are read, or bounds how many objects
// a delete of a collection deletes.
func Limit(n int64) Option { return func(c *call) { c.limit = n } }

// From begins a list, or a delete of a collection, at a page of an earlier list with the same selectors. The server reads the
// state of that list. It keeps it for some minutes only; afterwards the answer is 410 (ResourceExpired).
func From(token string) Option { return func(c *call) { c.token = token } }

// AtLeast allows the server to answer a read from its own cache, not older than this resourceVersion ("0": any).
func AtLeast(resourceVersion string) Option { return func(c *call) { c.version = resourceVersion } }

// IfUID makes a delete fail with a conflict unless the object has this UID.
func IfUID(uid types.UID) Option {
	return func(c *call) { preconditions(c).UID = &uid }
}

// IfVersion makes a delete fail with a conflict unless the object has this resourceVersion.
func IfVersion(rv string) Option {
	return func(c *call) { preconditions(c).ResourceVersion = &rv }
}

func preconditions(c *call) *metav1.Preconditions {
	if c.del.Preconditions == nil {
		c.del.Preconditions = &metav1.Preconditions{}
	}
	return c.del.Preconditions
}

// Foreground deletes dependents before the object.
func Foreground(c *call) { propagate(c, metav1.DeletePropagationForeground) }

// Background deletes the object first and leaves dependents to the garbage collector.
func Background(c *call) { propagate(c, metav1.DeletePropagationBackground) }

// Orphan deletes the object and keeps its dependents.
func Orphan(c *call) { propagate(c, metav1.DeletePropagationOrphan) }

func propagate(c *call, p metav1.DeletionPropagation) { c.del.PropagationPolicy = &p }

// GracePeriod sets the seconds that a deleted pod has to stop; 0 removes it at once.
func GracePeriod(seconds int64) Option { return func(c *call) { c.del.GracePeriodSeconds = &seconds } }

// FieldManager names the writer in managed fields.
func FieldManager(name string) Option { return func(c *call) { c.manager = name } }

// Force lets a server-side apply take fields from other managers.
func Force(c *call) { yes := true; c.force = &yes }
