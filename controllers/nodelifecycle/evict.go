package nodelifecycle

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"

	"orrery/kit"
)

// evictZone adds the NoExecute taint to the nodes of a zone that wait for it, as fast as the zone's rate allows. A node
// that has recovered or gone meanwhile costs nothing.
func (r *reconciler) evictZone(ctx context.Context, zone string) (kit.Result, error) {
	for ctx.Err() == nil {
		now := time.Now()
		name, wait, ok := r.zones.next(zone, now)
		if !ok {
			return kit.Done, nil
		}
		node, exists := r.nodes.Get(kit.Key{Name: name})
		key := ""
		if exists {
			if ready := condition(node, corev1.NodeReady); ready != nil {
				key = lostTaint(ready.Status)
			}
		}
		switch {
		case !exists:
			r.zones.dequeue(name)
			continue
		case key == "" || hasNoExecute(node, key):
			r.zones.dequeue(node.Name)
			continue
		case wait != 0:
			return kit.After(wait), nil // a rate of 0 wakes the zone when it changes
		}
		if err := r.setLost(ctx, node, key); err != nil {
			return kit.Done, err
		}
		r.zones.spend(zone, now)
		r.zones.dequeue(node.Name)
		r.metrics.evictions.WithLabelValues(topology.GetZoneKey(node)).Inc()
	}
	return kit.Done, ctx.Err()
}
