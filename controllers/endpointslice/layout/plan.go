package layout

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Plan is what to do to the slices of one Service in one address family. The objects in Create and Update are the
// plan's own; those in Delete and Unchanged are shared and read-only.
type Plan struct {
	Create, Update, Delete, Unchanged []*discoveryv1.EndpointSlice

	// Added and Removed count the endpoints that enter and leave slices.
	Added, Removed int
	// Groups is the size of each group of endpoints with equal ports.
	Groups []Group
	// Homeless are the pods left out because their node is not known. They are listed once it is.
	Homeless []*corev1.Pod

	pack *packer
}

// Group counts the endpoints that share a set of ports, and the slices they take once the plan is carried out.
type Group struct{ Endpoints, Slices int }

// Changes is the number of slices that the plan writes or deletes.
func (p *Plan) Changes() int { return len(p.Create) + len(p.Update) + len(p.Delete) }

// Reuse turns pairs of a slice to delete and one to create into one update. A slice of an earlier Service of the same
// name is never taken over: the garbage collector is about to delete it.
func (p *Plan) Reuse() {
	p.Delete = slices.DeleteFunc(p.Delete, func(old *discoveryv1.EndpointSlice) bool {
		last := len(p.Create) - 1
		if last < 0 || old.AddressType != p.Create[last].AddressType || !ownedBy(old, p.pack.Service) {
			return false
		}
		next := p.Create[last]
		p.Create = p.Create[:last]
		next.Name, next.UID, next.ResourceVersion = old.Name, old.UID, old.ResourceVersion
		p.Update = append(p.Update, next)
		return true
	})
}

// thaw moves the unchanged slices that match to the end of those to update, without their hints. It returns them as
// they are now.
func (p *Plan) thaw(match func(*discoveryv1.EndpointSlice) bool) (thawed []*discoveryv1.EndpointSlice) {
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
		thawed = append(thawed, s)
	}
	p.Unchanged = kept
	return thawed
}

// refreeze takes back those of the slices just thawed whose hints have come out as they are now.
func (p *Plan) refreeze(thawed []*discoveryv1.EndpointSlice) {
	first := len(p.Update) - len(thawed)
	kept := p.Update[:first]
	for i, next := range p.Update[first:] {
		if slices.EqualFunc(thawed[i].Endpoints, next.Endpoints, sameHints) {
			p.Unchanged = append(p.Unchanged, thawed[i])
		} else {
			kept = append(kept, next)
		}
	}
	p.Update = kept
}

// written calls f for each endpoint that the plan writes.
func (p *Plan) written(f func(e *discoveryv1.Endpoint)) {
	for _, set := range [...][]*discoveryv1.EndpointSlice{p.Create, p.Update} {
		for _, s := range set {
			for i := range s.Endpoints {
				f(&s.Endpoints[i])
			}
		}
	}
}
