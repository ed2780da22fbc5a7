package nodelifecycle

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/client"
)

// evictZone adds the NoExecute taint to the nodes of a zone that wait for it, as fast as the zone's rate allows. A node
// that has recovered or gone meanwhile does not count against the rate.
func (r *reconciler) evictZone(ctx context.Context, zone string) (kit.Result, error) {
	for ctx.Err() == nil {
		now := time.Now()
		judged, wait, ok := r.zones.next(zone, now)
		if !ok {
			return kit.Done, nil
		}
		node, key := r.lostSince(judged)
		switch {
		case key == "" || hasNoExecute(node, key):
			r.zones.dequeue(judged.Name)
			continue
		case wait == noRate:
			return kit.Done, nil
		case wait > 0:
			return kit.After(wait), nil
		}
		// A node that cannot be tainted must not hold up its zone. The next check of the heartbeats enqueues it again.
		r.zones.dequeue(node.Name)
		lost, err := r.setLost(ctx, node, key)
		if err != nil {
			klog.FromContext(ctx).Error(err, "A lost node could not be tainted", "node", klog.KObj(node))
		}
		if !lost {
			continue
		}
		r.zones.spend(zone, now)
		r.metrics.evictions.WithLabelValues(topology.GetZoneKey(node)).Inc()
	}
	return kit.Done, ctx.Err()
}

// lostSince returns the present state of a node that was judged to be lost, and the key of the taint that it should have,
// which is empty if the node is alive or gone. Until the cache shows the write of the verdict, the judged state counts.
func (r *reconciler) lostSince(judged *corev1.Node) (node *corev1.Node, key string) {
	written := client.Write{GVK: r.nodes.GVK(), Key: kit.KeyOf(judged), UID: judged.UID, ResourceVersion: judged.ResourceVersion}
	node = judged
	if r.nodes.Informer().Seen(written) {
		var ok bool
		if node, ok = r.nodes.Get(kit.KeyOf(judged)); !ok {
			return judged, ""
		}
	}
	return node, lostBy(node)
}
