package layout

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Input is the input of Pack. Everything in it is read-only.
type Input struct {
	Service *corev1.Service
	Family  discoveryv1.AddressType
	// Pods are the pods that the Service selects, in any order.
	Pods []*corev1.Pod
	// Existing are the managed slices for the Service's name in this family that are not being deleted.
	Existing []*discoveryv1.EndpointSlice
	// Zone returns the zone of a node, empty if it has none; known is false for a node that does not exist.
	Zone func(node string) (zone string, known bool)
	// Max is the number of endpoints that a slice may hold.
	Max int
}

// Pack returns the plan that brings the slices in line with the pods. The slices to be written have no hints yet.
func Pack(in Input) *Plan {
	p := &packer{Input: in, plan: &Plan{}}
	p.plan.pack = p
	p.gather()
	p.adopt()
	for _, group := range p.ports.sorted() {
		p.fit(group)
	}
	p.placeholder()
	slices.SortFunc(p.plan.Update, byName)
	return p.plan
}

// packer is the state of one Pack.
type packer struct {
	Input
	plan       *Plan
	ports      *portGroups
	members    []member
	byPod      map[string]*member
	wantLabels map[string]string
	owned      []*discoveryv1.EndpointSlice // existing ones that no group has claimed yet
	matched    []*member                    // scratch space of keep: the member for each endpoint of the slice
}

// draft is an existing slice that will be updated, with its new endpoints.
type draft struct {
	from      *discoveryv1.EndpointSlice
	endpoints []discoveryv1.Endpoint
}

// gather collects the members.
func (p *packer) gather() {
	p.ports = newPortGroups(p.Service)
	p.members = make([]member, 0, len(p.Pods))
	p.byPod = make(map[string]*member, len(p.Pods))
	for _, pod := range p.Pods {
		if !Listed(pod) {
			continue
		}
		group := p.ports.of(pod)
		zone, known := p.Zone(pod.Spec.NodeName)
		if !known && !p.Service.Spec.PublishNotReadyAddresses {
			p.plan.MissingNode = append(p.plan.MissingNode, pod)
			continue
		}
		m, ok := newMember(p.Service, pod, zone, p.Family)
		if !ok {
			continue
		}
		m.group = group
		p.members = append(p.members, m) // never exceeds its capacity, so that pointers to the elements stay valid
		p.byPod[pod.Name] = &p.members[len(p.members)-1]
	}
}

// adopt separates the slices of this Service from those of earlier Services of the same name, which are deleted.
func (p *packer) adopt() {
	p.owned = make([]*discoveryv1.EndpointSlice, 0, len(p.Existing))
	for _, s := range p.Existing {
		if OwnedBy(s, p.Service) {
			p.owned = append(p.owned, s)
		} else {
			p.plan.Delete = append(p.plan.Delete, s)
		}
	}
	slices.SortFunc(p.owned, byName)
}

// claim returns the slices with the given ports, and removes them from those that no group has claimed.
func (p *packer) claim(ports []discoveryv1.EndpointPort) []*discoveryv1.EndpointSlice {
	var mine []*discoveryv1.EndpointSlice
	p.owned = slices.DeleteFunc(p.owned, func(s *discoveryv1.EndpointSlice) bool {
		if !samePorts(s.Ports, ports) {
			return false
		}
		mine = append(mine, s)
		return true
	})
	return mine
}

// fit plans the slices of one group.
func (p *packer) fit(group int) {
	ports := p.ports.ports(group)
	have := p.claim(ports)
	var drafts []*draft
	var untouched []*discoveryv1.EndpointSlice
	deleted := len(p.plan.Delete)
	for _, s := range have {
		switch endpoints, changed := p.keep(s, group); {
		case !changed:
			untouched = append(untouched, s)
		case len(endpoints) == 0:
			p.plan.Delete = append(p.plan.Delete, s)
		default:
			drafts = append(drafts, &draft{from: s, endpoints: endpoints})
		}
	}
	size, left := p.unplaced(group)
	p.plan.Added += len(left)
	left = p.fill(drafts, left)
	created := len(p.plan.Create)
	for len(left) > 0 {
		if i := bestFit(untouched, len(left), p.Max); i >= 0 {
			drafts = append(drafts, &draft{from: untouched[i], endpoints: appendEndpoints(copyOf(untouched[i]), left)})
			untouched = slices.Delete(untouched, i, i+1)
			break
		}
		n := min(len(left), p.Max)
		p.plan.Create = append(p.plan.Create, p.newSlice(ports, appendEndpoints(nil, left[:n])))
		left = left[n:]
	}
	for _, d := range drafts {
		p.plan.Update = append(p.plan.Update, p.revise(d.from, d.endpoints))
	}
	for _, s := range untouched {
		if len(s.Endpoints) == 0 {
			p.plan.Delete = append(p.plan.Delete, s)
			continue
		}
		p.plan.Unchanged = append(p.plan.Unchanged, s)
	}
	p.plan.Groups = append(p.plan.Groups, Group{
		Endpoints: size, Slices: len(have) + len(p.plan.Create) - created - (len(p.plan.Delete) - deleted),
	})
}

// keep marks the members whose endpoints a slice already has as placed. If the slice has to change, it returns the
// endpoints that stay in it.
func (p *packer) keep(s *discoveryv1.EndpointSlice, group int) (endpoints []discoveryv1.Endpoint, changed bool) {
	p.matched = p.matched[:0]
	stay := 0
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		m := p.member(e, group)
		p.matched = append(p.matched, m)
		if m == nil {
			changed = true
			continue
		}
		m.placed = true
		stay++
		changed = changed || !m.matches(e)
	}
	p.plan.Removed += len(s.Endpoints) - stay
	if !changed && hasLabelsOf(s, p.Service) {
		return nil, false
	}
	endpoints = make([]discoveryv1.Endpoint, 0, min(p.Max, stay+8))
	for i, m := range p.matched {
		switch {
		case m == nil:
		case m.matches(&s.Endpoints[i]):
			endpoints = append(endpoints, unhinted(s.Endpoints[i]))
		default:
			endpoints = append(endpoints, m.endpoint())
		}
	}
	return endpoints, true
}

// member returns the member of a group that an endpoint belongs to, or nil if there is none or an earlier endpoint has
// been matched to it.
func (p *packer) member(e *discoveryv1.Endpoint, group int) *member {
	if e.TargetRef == nil {
		return nil
	}
	m := p.byPod[e.TargetRef.Name]
	if m == nil || m.placed || m.group != group || !m.identifies(e) {
		return nil
	}
	return m
}

// unplaced returns the members of a group that are in no slice yet, sorted by name, and the size of the group.
func (p *packer) unplaced(group int) (size int, left []*member) {
	for i := range p.members {
		m := &p.members[i]
		if m.group != group {
			continue
		}
		size++
		if !m.placed {
			left = append(left, m)
		}
	}
	slices.SortFunc(left, byPodName)
	return size, left
}

// fill adds members to slices that are written anyway, the fullest first, and returns those for which there is no room.
func (p *packer) fill(drafts []*draft, left []*member) []*member {
	if len(left) == 0 {
		return nil
	}
	slices.SortStableFunc(drafts, func(a, b *draft) int { return cmp.Compare(len(b.endpoints), len(a.endpoints)) })
	for _, d := range drafts {
		n := min(len(left), max(0, p.Max-len(d.endpoints)))
		d.endpoints = appendEndpoints(d.endpoints, left[:n])
		left = left[n:]
	}
	return left
}

// placeholder plans one empty slice for a Service without endpoints, so that consumers can distinguish it from a Service
// that has not been processed yet.
func (p *packer) placeholder() {
	p.plan.Delete = append(p.plan.Delete, p.owned...)
	if len(p.plan.Delete) != len(p.Existing) || len(p.plan.Create) > 0 {
		return
	}
	p.plan.Groups = append(p.plan.Groups, Group{Slices: 1})
	i := slices.IndexFunc(p.plan.Delete, p.isPlaceholder)
	if i < 0 {
		p.plan.Create = append(p.plan.Create, p.newSlice([]discoveryv1.EndpointPort{}, []discoveryv1.Endpoint{}))
		return
	}
	p.plan.Unchanged = append(p.plan.Unchanged, p.plan.Delete[i])
	p.plan.Delete = slices.Delete(p.plan.Delete, i, i+1)
}

func (p *packer) isPlaceholder(s *discoveryv1.EndpointSlice) bool {
	return len(s.Endpoints) == 0 && len(s.Ports) == 0 && OwnedBy(s, p.Service) && hasLabelsOf(s, p.Service)
}

// bestFit returns the index of the slice with the least room left after n more endpoints, or -1 if none has room for all
// of them.
func bestFit(have []*discoveryv1.EndpointSlice, n, limit int) int {
	best, room := -1, limit
	for i, s := range have {
		if left := limit - len(s.Endpoints) - n; left >= 0 && left < room {
			best, room = i, left
		}
	}
	return best
}

func copyOf(s *discoveryv1.EndpointSlice) []discoveryv1.Endpoint {
	out := make([]discoveryv1.Endpoint, len(s.Endpoints), len(s.Endpoints)+1)
	for i := range s.Endpoints {
		out[i] = unhinted(s.Endpoints[i])
	}
	return out
}

func appendEndpoints(to []discoveryv1.Endpoint, from []*member) []discoveryv1.Endpoint {
	to = slices.Grow(to, len(from))
	for _, m := range from {
		to = append(to, m.endpoint())
	}
	return to
}

func byName(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) }
