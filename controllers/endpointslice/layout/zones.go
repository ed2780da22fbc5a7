package layout

import (
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// overload is how far the load of an endpoint may exceed that of an even distribution, as a fraction.
const overload float64 = 0.2

// Why a Service gets no proportional hints, in the words of the event.
const (
	noNodes     = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
	fewEndpoint = "Insufficient number of endpoints"
	overloaded  = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold"
	noZone      = "One or more endpoints do not have a zone specified"
)

// Shares is the fraction of the ready nodes' CPUs that each zone has. It is nil if that cannot be computed, or if there is
// only one zone.
type Shares map[string]float64

// SharesOf computes the shares from the nodes. Control plane nodes and nodes that are not ready are ignored. If any other
// node has no zone or no CPUs, the shares cannot be computed.
func SharesOf(nodes []*corev1.Node) Shares {
	cpus := map[string]*resource.Quantity{}
	var total resource.Quantity
	for _, n := range nodes {
		if controlPlane(n) || !NodeReady(n) {
			continue
		}
		zone, cpu := n.Labels[corev1.LabelTopologyZone], n.Status.Allocatable[corev1.ResourceCPU]
		if zone == "" || cpu.IsZero() {
			return nil
		}
		total.Add(cpu)
		if cpus[zone] == nil {
			cpus[zone] = &resource.Quantity{}
		}
		cpus[zone].Add(cpu)
	}
	if total.IsZero() || len(cpus) < 2 {
		return nil
	}
	out := make(Shares, len(cpus))
	for zone, cpu := range cpus {
		out[zone] = float64(cpu.MilliValue()) / float64(total.MilliValue())
	}
	return out
}

func controlPlane(n *corev1.Node) bool {
	for _, label := range [...]string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"} {
		if _, ok := n.Labels[label]; ok {
			return true
		}
	}
	return false
}

// NodeReady reports whether a node is ready.
func NodeReady(n *corev1.Node) bool {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// quota is how many endpoints a zone should serve.
type quota struct {
	least, most int
	ideal       float64
}

// quotas divides n endpoints among the zones, or returns the reason why that cannot be done without overloading a zone.
func (s Shares) quotas(n int) (map[string]quota, string) {
	if len(s) < 2 {
		return nil, noNodes
	}
	if len(s) > n {
		return nil, fmt.Sprintf("%s (%d endpoints, %d zones)", fewEndpoint, n, len(s))
	}
	out := make(map[string]quota, len(s))
	sum := 0
	for zone, share := range s {
		ideal := share * float64(n)
		least := atLeast(ideal)
		out[zone] = quota{least: least, ideal: math.Max(ideal, float64(least))}
		sum += least
	}
	if sum > n {
		return nil, fmt.Sprintf("%s (%d endpoints, %d zones)", overloaded, n, len(s))
	}
	for zone, q := range out {
		q.most = q.least + n - sum
		out[zone] = q
	}
	return out, ""
}

// atLeast is the smallest number of endpoints that can serve the load of ideal endpoints without being overloaded.
func atLeast(ideal float64) int { return int(math.Ceil(ideal * (1 / (1 + overload)))) }

// Overloaded reports whether some zone has too few endpoints hinted for it, given the counts that Spread returned.
func (s Shares) Overloaded(hinted map[string]int) bool {
	if len(hinted) == 0 {
		return false
	}
	if len(s) == 0 {
		return true
	}
	total := 0
	for _, n := range hinted {
		total += n
	}
	for zone, share := range s {
		if n, ok := hinted[zone]; !ok || n < atLeast(float64(total)*share) {
			return true
		}
	}
	return false
}

// Spread hints the ready endpoints for zones in proportion to the shares, most of them for their own zone. Slices whose
// hints still fit are left as they are. It returns how many endpoints are hinted for each zone. If proportional hints are
// not possible it removes all hints and returns the reason.
func (p *Plan) Spread(shares Shares) (hinted map[string]int, problem string) {
	ready, zoned := p.ready()
	quotas, problem := shares.quotas(ready)
	if problem == "" && !zoned {
		problem = noZone
	}
	if problem != "" {
		p.Strip()
		return nil, problem
	}
	hinted = map[string]int{}
	reopened := p.reopen(func(s *discoveryv1.EndpointSlice) bool { return !fits(s, hinted, quotas) })
	p.eachWritten(func(e *discoveryv1.Endpoint) {
		e.Hints = nil
		if isReady(e) {
			hinted[*e.Zone]++
			e.Hints = &discoveryv1.EndpointHints{ForZones: forZone(*e.Zone)}
		}
	})
	p.trade(hinted, quotas)
	p.closeUnchanged(reopened)
	return hinted, ""
}

// ready counts the ready endpoints of all slices; zoned is false if any of them has no zone.
func (p *Plan) ready() (n int, zoned bool) {
	zoned = true
	count := func(e *discoveryv1.Endpoint) {
		if isReady(e) {
			n++
			zoned = zoned && deref(e.Zone) != ""
		}
	}
	p.eachWritten(count)
	for _, s := range p.Unchanged {
		for i := range s.Endpoints {
			count(&s.Endpoints[i])
		}
	}
	return n, zoned
}

// fits reports whether the hints of a slice can stay as they are, and if so adds them to hinted.
func fits(s *discoveryv1.EndpointSlice, hinted map[string]int, quotas map[string]quota) bool {
	here := map[string]int{}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if !isReady(e) {
			continue
		}
		if e.Hints == nil || len(e.Hints.ForZones) == 0 {
			return false
		}
		for _, z := range e.Hints.ForZones {
			here[z.Name]++
		}
	}
	for zone, n := range here {
		if q, ok := quotas[zone]; !ok || hinted[zone]+n > q.most {
			return false
		}
	}
	for zone, n := range here {
		hinted[zone] += n
	}
	return true
}

// trade hints endpoints of zones that have more than their quota for zones that have too few.
func (p *Plan) trade(hinted map[string]int, quotas map[string]quota) {
	give, take := trades(hinted, quotas)
	p.eachWritten(func(e *discoveryv1.Endpoint) {
		from := deref(e.Zone)
		if !isReady(e) || give[from] == 0 {
			return
		}
		for _, to := range slices.Sorted(maps.Keys(take)) {
			if take[to] == 0 {
				continue
			}
			e.Hints = &discoveryv1.EndpointHints{ForZones: forZone(to)}
			give[from]--
			take[to]--
			hinted[from]--
			hinted[to]++
			return
		}
	})
}

// trades returns how many endpoints each zone should give away and how many each should receive. It moves one endpoint at
// a time from the zone with the largest surplus to the one with the largest deficit, as long as that brings both closer to
// their ideal on balance.
func trades(hinted map[string]int, quotas map[string]quota) (give, take map[string]int) {
	spare, lack := map[string]float64{}, map[string]float64{}
	for zone, q := range quotas {
		if over := float64(hinted[zone]) - q.ideal; over > 0 {
			spare[zone] = over
		} else if over < 0 {
			lack[zone] = -over
		}
	}
	give, take = map[string]int{}, map[string]int{}
	for {
		from, over := most(spare)
		to, under := most(lack)
		if over < 0.5 || under < 0.5 || over < 1 && under < 1 {
			return give, take
		}
		give[from]++
		spare[from]--
		take[to]++
		lack[to]--
	}
}

// most returns the zone with the highest number, the first by name if there are several; "" and 0 if none is above 0.
func most(zones map[string]float64) (zone string, n float64) {
	for _, z := range slices.Sorted(maps.Keys(zones)) {
		if zones[z] > n {
			zone, n = z, zones[z]
		}
	}
	return zone, n
}
