package nodelifecycle

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"
)

// zoneState is how much of a zone is lost.
type zoneState string

const (
	stateInitial zoneState = "Initial"
	stateNormal  zoneState = "Normal"
	statePartial zoneState = "PartialDisruption"
	stateFull    zoneState = "FullDisruption"
)

// transition is a change that concerns the whole cluster.
type transition int

const (
	none transition = iota
	enteredDisruption
	leftDisruption
)

// zones holds, for each zone, the nodes that wait for a NoExecute taint, and the rate at which they get it.
type zones struct {
	options options
	wake    func(zone string)

	mu         sync.Mutex // guards the fields below; nothing is called while holding it
	byName     map[string]*zone
	disrupted  bool // nothing is evicted anywhere
	transition transition
}

type zone struct {
	state   zoneState
	limiter *rate.Limiter
	waiting []string                // names of nodes, first come first served
	queued  map[string]*corev1.Node // the same nodes by name, as they were judged
}

func newZones(o options, wake func(string)) *zones {
	return &zones{options: o, wake: wake, byName: map[string]*zone{}}
}

// ensure adds a zone unless it is known.
func (z *zones) ensure(name string, m metrics) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.byName[name] == nil {
		z.byName[name] = &zone{state: stateInitial, queued: map[string]*corev1.Node{}, limiter: rate.NewLimiter(rate.Limit(z.options.evictionRate), 1)}
		m.evictions.WithLabelValues(name).Add(0)
	}
}

// enqueue adds a node to the queue of its zone, and removes it from that of the zone that it was in before.
func (z *zones) enqueue(node *corev1.Node) {
	name := topology.GetZoneKey(node)
	z.mu.Lock()
	added := false
	for other, known := range z.byName {
		switch {
		case other != name:
			known.leave(node.Name)
		case known.queued[node.Name] == nil:
			known.waiting = append(known.waiting, node.Name)
			added = true
			fallthrough
		default:
			known.queued[node.Name] = node
		}
	}
	z.mu.Unlock()
	if added {
		z.wake(name)
	}
}

// dequeue removes a node from all queues; its zone may have changed since it was enqueued.
func (z *zones) dequeue(node string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, known := range z.byName {
		known.leave(node)
	}
}

// leave removes a node from the queue.
func (k *zone) leave(node string) {
	if k.queued[node] != nil {
		delete(k.queued, node)
		k.waiting = slices.DeleteFunc(k.waiting, func(n string) bool { return n == node })
	}
}

// noRate is the wait in a zone whose rate is 0. The next change of the rate, which wakes the zone, ends it.
const noRate time.Duration = -1

// next returns the node whose turn it is in a zone, as it was judged; ok is false if none waits. wait is the time until the
// rate allows its eviction, or noRate.
func (z *zones) next(name string, now time.Time) (node *corev1.Node, wait time.Duration, ok bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	known := z.byName[name]
	if known == nil || len(known.waiting) == 0 {
		return nil, 0, false
	}
	node = known.queued[known.waiting[0]]
	if known.limiter.Limit() <= 0 {
		return node, noRate, true
	}
	if tokens := known.limiter.TokensAt(now); tokens < 1 {
		return node, time.Duration((1 - tokens) / float64(known.limiter.Limit()) * float64(time.Second)), true
	}
	return node, 0, true
}

// spend counts one eviction against the rate of a zone.
func (z *zones) spend(name string, now time.Time) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if known := z.byName[name]; known != nil {
		known.limiter.AllowN(now, 1)
	}
}

// change is a new state of a zone.
type change struct {
	zone  string
	state zoneState
	rate  float32
}

// settle sets the states and rates of all zones according to the verdicts of one check.
func (z *zones) settle(verdicts []verdict, m metrics) []change {
	counts, inhabited := map[string]*count{}, map[string]bool{}
	for _, v := range verdicts {
		name := topology.GetZoneKey(v.node)
		inhabited[name] = true
		if _, excluded := v.node.Labels[excludeLabel]; excluded || !v.judged {
			continue
		}
		if counts[name] == nil {
			counts[name] = &count{}
		}
		counts[name].add(v.status == corev1.ConditionTrue)
	}
	changes := z.apply(counts, inhabited, m)
	for _, c := range changes {
		z.wake(c.zone)
	}
	return changes
}

// apply sets the states of all zones according to their counts. A zone of which no node counts keeps its state; one without
// nodes is forgotten.
func (z *zones) apply(counts map[string]*count, inhabited map[string]bool, m metrics) []change {
	z.mu.Lock()
	defer z.mu.Unlock()
	allAre, allWere := true, true
	for name, known := range z.byName {
		c := counts[name]
		if c == nil {
			m.zone(name, count{})
			if !inhabited[name] {
				delete(z.byName, name)
			}
			continue
		}
		m.zone(name, *c)
		allAre = allAre && c.state(z.options.unhealthyZone) == stateFull
		allWere = allWere && known.state == stateFull
	}
	if len(counts) == 0 {
		return nil
	}
	// A new zone has no previous state, but a ready node in it ends a disruption as one in any other zone does.
	left := !allAre && (allWere || z.disrupted)
	switch {
	case allAre && allWere:
		return nil
	case allAre:
		z.disrupted, z.transition = true, enteredDisruption
	case left:
		z.disrupted, z.transition = false, leftDisruption
	}
	var changes []change
	for name, c := range counts {
		known := z.byName[name]
		if known == nil {
			continue
		}
		state := c.state(z.options.unhealthyZone)
		limit := z.rate(state, c.total())
		if allAre {
			limit = 0
		}
		if state == known.state && !allAre && !left {
			continue
		}
		known.state = state
		known.setLimit(limit)
		changes = append(changes, change{name, state, limit})
	}
	return changes
}

// rate returns how many nodes a second may be tainted in a zone of that state and size.
func (z *zones) rate(s zoneState, size int) float32 {
	if s != statePartial {
		return z.options.evictionRate
	}
	if size > int(z.options.largeCluster) {
		return z.options.secondaryRate
	}
	return 0
}

// setLimit changes the rate. That does not refill the token: a zone that has just used it still has to wait, and so does one
// whose rate was 0, since its nodes may be about to come back.
func (k *zone) setLimit(limit float32) {
	if float32(k.limiter.Limit()) == limit {
		return
	}
	spent := k.limiter.Tokens() < 1 || k.limiter.Limit() <= 0
	k.limiter = rate.NewLimiter(rate.Limit(limit), 1)
	if spent {
		k.limiter.Allow()
	}
}

func (z *zones) takeTransition() transition {
	z.mu.Lock()
	defer z.mu.Unlock()
	t := z.transition
	z.transition = none
	return t
}

// count is the number of nodes of a zone by state.
type count struct{ ready, lost int }

func (c *count) add(ready bool) {
	if ready {
		c.ready++
	} else {
		c.lost++
	}
}

func (c count) total() int { return c.ready + c.lost }

// state returns how disrupted a zone with these nodes is.
func (c count) state(threshold float32) zoneState {
	switch {
	case c.ready == 0 && c.lost > 0:
		return stateFull
	case c.lost > 2 && float32(c.lost)/float32(c.total()) >= threshold:
		return statePartial
	}
	return stateNormal
}
