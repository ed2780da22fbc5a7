package endpointslice

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/klog/v2"

	"orrery/controllers/endpointslice/layout"
	"orrery/kit"
)

// hint adds the hints that the Service requests to a plan.
func (r *reconciler) hint(ctx context.Context, svc *corev1.Service, family discoveryv1.AddressType, plan *layout.Plan) {
	key := kit.KeyOf(svc)
	if layout.Auto(svc) {
		hinted, problem := plan.Spread(r.zones.shares())
		switch wasOn := r.zones.set(key, family, hinted); {
		case problem != "":
			r.recorder.Event(svc, corev1.EventTypeWarning, "TopologyAwareHintsDisabled", forFamily(problem, family))
			klog.FromContext(ctx).V(2).Info("No topology hints", "service", klog.KObj(svc), "addressType", family, "reason", problem)
		case !wasOn:
			r.recorder.Event(svc, corev1.EventTypeNormal, "TopologyAwareHintsEnabled", forFamily("Topology Aware Hints has been enabled", family))
			klog.FromContext(ctx).Info("Topology hints are on", "service", klog.KObj(svc), "addressType", family)
		}
		return
	}
	if r.zones.drop(key, family) {
		r.recorder.Event(svc, corev1.EventTypeWarning, "TopologyAwareHintsDisabled", forFamily("Topology Aware Hints has been disabled", family))
		klog.FromContext(ctx).Info("Topology hints are off", "service", klog.KObj(svc), "addressType", family)
	}
	switch preference := layout.Preference(svc); preference {
	case "":
		plan.Strip()
	default:
		plan.Prefer(preference == corev1.ServiceTrafficDistributionPreferSameNode)
	}
}

func forFamily(message string, family discoveryv1.AddressType) string {
	return fmt.Sprintf("%s, addressType: %s", message, family)
}

// rebalance returns the loop that requeues Services for which a change of nodes has left a zone with too few endpoints.
func (r *reconciler) rebalance(again func(kit.Key)) kit.Func[string] {
	return func(ctx context.Context, _ string) (kit.Result, error) {
		for _, key := range r.zones.overloaded() {
			klog.FromContext(ctx).V(2).Info("A zone has too few endpoints after a change of nodes", "service", key)
			again(key)
		}
		return kit.Done, nil
	}
}

// zones knows how the CPUs of the cluster are distributed over zones, and how the endpoints of the Services with
// proportional hints are. The nodes are read when a Service needs the distribution, and again only after they have changed.
type zones struct {
	nodes func() []*corev1.Node

	mu      sync.Mutex // guards the fields below
	known   bool       // current is up to date
	current layout.Shares
	hinted  map[kit.Key]map[discoveryv1.AddressType]map[string]int
	on      map[kit.Key]bool // Services with an event that hints are enabled
}

func newZones(nodes func() []*corev1.Node) *zones {
	return &zones{
		nodes:  nodes,
		hinted: map[kit.Key]map[discoveryv1.AddressType]map[string]int{}, on: map[kit.Key]bool{},
	}
}

// nodeChanged records a change of the nodes, and triggers a rebalance if there are Services with proportional hints.
func (z *zones) nodeChanged(old, now *corev1.Node) []string {
	if old != nil && now != nil && layout.NodeReady(old) == layout.NodeReady(now) &&
		old.Labels[corev1.LabelTopologyZone] == now.Labels[corev1.LabelTopologyZone] {
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.known = false
	if len(z.hinted) == 0 {
		return nil
	}
	return []string{"nodes"}
}

func (z *zones) shares() layout.Shares {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.sharesLocked()
}

func (z *zones) sharesLocked() layout.Shares {
	if !z.known {
		z.current, z.known = layout.SharesOf(z.nodes()), true
	}
	return z.current
}

// set records how many endpoints of a Service are hinted for each zone, nil if there are no hints, and reports whether its
// hints were enabled before.
func (z *zones) set(key kit.Key, family discoveryv1.AddressType, hinted map[string]int) (wasOn bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if hinted == nil {
		return z.dropLocked(key, family)
	}
	if z.hinted[key] == nil {
		z.hinted[key] = map[discoveryv1.AddressType]map[string]int{}
	}
	z.hinted[key][family] = hinted
	wasOn, z.on[key] = z.on[key], true
	return wasOn
}

// drop forgets the hints of one family, and reports whether the hints of the Service were enabled.
func (z *zones) drop(key kit.Key, family discoveryv1.AddressType) (wasOn bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.dropLocked(key, family)
}

func (z *zones) dropLocked(key kit.Key, family discoveryv1.AddressType) (wasOn bool) {
	delete(z.hinted[key], family)
	if len(z.hinted[key]) == 0 {
		delete(z.hinted, key)
	}
	wasOn = z.on[key]
	delete(z.on, key)
	return wasOn
}

// overloaded returns the Services that have too few endpoints hinted for some zone.
func (z *zones) overloaded() []kit.Key {
	z.mu.Lock()
	defer z.mu.Unlock()
	shares := z.sharesLocked()
	var keys []kit.Key
	for key, families := range z.hinted {
		for _, hinted := range families {
			if shares.Overloaded(hinted) {
				keys = append(keys, key)
				break
			}
		}
	}
	return keys
}

// forget drops the state of a deleted Service.
func (z *zones) forget(key kit.Key) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.hinted, key)
	delete(z.on, key)
}
