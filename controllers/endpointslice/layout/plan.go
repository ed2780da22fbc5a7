package layout

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Plan is what to do with the slices of one Service in one address family. The objects in Create and Update belong to the
// plan; those in Delete and Unchanged are shared and read-only.
type Plan struct {
	Create, Update, Delete, Unchanged []*discoveryv1.EndpointSlice

	// Added and Removed count the endpoints that are added to and removed from slices.
	Added, Removed int
	// Groups are the sizes of the groups of endpoints with equal ports.
	Groups []Group
	// MissingNode are the pods left out because their node is not in the cache.
	MissingNode []*corev1.Pod

	pack *packer
}

// Group counts the endpoints that have the same ports, and the slices that they occupy once the plan is carried out.
type Group struct{ Endpoints, Slices int }

// Changes is the number of slices that the plan writes or deletes.
func (p *Plan) Changes() int { return len(p.Create) + len(p.Update) + len(p.Delete) }

// Reuse merges pairs of a slice to delete and one to create into one update. A slice of an earlier Service of the same
// name is not reused: the garbage collector is about to delete it.
func (p *Plan) Reuse() {
	p.Delete = slices.DeleteFunc(p.Delete, func(old *discoveryv1.EndpointSlice) bool {
		last := len(p.Create) - 1
		if last < 0 || old.AddressType != p.Create[last].AddressType || !OwnedBy(old, p.pack.Service) {
			return false
		}
		next := p.Create[last]
		p.Create = p.Create[:last]
		next.Name, next.UID, next.ResourceVersion = old.Name, old.UID, old.ResourceVersion
		p.Update = append(p.Update, next)
		return true
	})
}

// reopen moves the unchanged slices that match to the end of Update, without their hints, and returns the originals.
func (p *Plan) reopen(match func(*discoveryv1.EndpointSlice) bool) (reopened []*discoveryv1.EndpointSlice) {
	kept := p.Unchanged[:0]
	for _, s := range p.Unchanged {
		if !match(s) {
			kept = append(kept, s)
			continue
		}
		endpoints := make([]discoveryv1.Endpoint, len(s.Endpoints))
		for i := range s.Endpoints {
			endpoints[i] = unhinted(s.Endpoints[i])
		}
		p.Update = append(p.Update, p.pack.revise(s, endpoints))
		reopened = append(reopened, s)
	}
	p.Unchanged = kept
	return reopened
}

// closeUnchanged moves those of the reopened slices back to Unchanged whose new hints are the same as before. It takes the
// result of reopen.
func (p *Plan) closeUnchanged(reopened []*discoveryv1.EndpointSlice) {
	first := len(p.Update) - len(reopened)
	kept := p.Update[:first]
	for i, next := range p.Update[first:] {
		if slices.EqualFunc(reopened[i].Endpoints, next.Endpoints, sameHints) {
			p.Unchanged = append(p.Unchanged, reopened[i])
		} else {
			kept = append(kept, next)
		}
	}
	p.Update = kept
}

// eachWritten calls f for each endpoint that the plan writes.
func (p *Plan) eachWritten(f func(e *discoveryv1.Endpoint)) {
	for _, set := range [...][]*discoveryv1.EndpointSlice{p.Create, p.Update} {
		for _, s := range set {
			for i := range s.Endpoints {
				f(&s.Endpoints[i])
			}
		}
	}
}
