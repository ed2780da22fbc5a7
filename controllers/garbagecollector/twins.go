package garbagecollector

import (
	"maps"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// place is where objects of a kind are: a resource, in namespaces or not. A definition that is made anew may move its
// kind, and in the odd aggregated API a kind has two places.
type place struct {
	resource   string
	namespaced bool
}

// places are those of kinds.
type places map[schema.GroupVersionKind]map[place]bool

func (p places) add(gvk schema.GroupVersionKind, at place) {
	if p[gvk] == nil {
		p[gvk] = map[place]bool{}
	}
	p[gvk][at] = true
}

// twins are the kinds with more places than one. A reference names the kind, so that an owner may be in any of them; what
// is watched, and collected itself, is what the mapping of kinds to resources leads to. It is safe for concurrent use, and
// its zero value has none.
type twins struct{ known atomic.Pointer[places] }

// set takes over those of the kinds that can be read.
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
