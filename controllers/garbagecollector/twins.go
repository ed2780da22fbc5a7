package garbagecollector

import (
	"maps"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// place is where the objects of a kind are: a resource, namespaced or not. A CustomResourceDefinition that is deleted and
// created again may move its kind, and some aggregated APIs serve a kind in two places.
type place struct {
	resource   string
	namespaced bool
}

// places are the places of each kind.
type places map[schema.GroupVersionKind]map[place]bool

func (p places) add(gvk schema.GroupVersionKind, at place) {
	if p[gvk] == nil {
		p[gvk] = map[place]bool{}
	}
	p[gvk][at] = true
}

// twins are the kinds with more than one place. An owner reference names only the kind, so the owner may be in any of its
// places. Watched and collected are only the objects in the place that the RESTMapper returns. It is safe for concurrent
// use; its zero value has no kinds.
type twins struct{ known atomic.Pointer[places] }

// set picks the kinds with more than one place.
func (t *twins) set(readable places) {
	several := maps.Clone(readable)
	maps.DeleteFunc(several, func(_ schema.GroupVersionKind, at map[place]bool) bool { return len(at) < 2 })
	t.known.Store(&several)
}

// of returns the places of a kind that has several, and none of any other.
func (t *twins) of(gvk schema.GroupVersionKind) map[place]bool {
	if p := t.known.Load(); p != nil {
		return (*p)[gvk]
	}
	return nil
}
