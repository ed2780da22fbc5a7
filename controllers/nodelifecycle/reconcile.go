package nodelifecycle

import (
	"context"
	"fmt"
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

type reconciler struct {
	options  options
	client   *client.Client
	live     *client.Client
	recorder record.EventRecorder
	metrics  metrics
	nodes    cache.Store[*corev1.Node]
	leases   cache.Store[*coordinationv1.Lease]
	pods     cache.Store[*corev1.Pod]
	breaker  bool
	zones    *zones

	// The fields below belong to the one worker of the heartbeat loop.
	health   map[string]*health
	known    map[string]*corev1.Node
	checked  bool            // whether there was a check before this one
	retry    map[string]bool // nodes whose pods may not all be marked
	sparing  bool            // no node is ready anywhere, and some may still have a taint that evicts
	staleFor *client.Write   // the version that the lease cache has to reach before any node is judged
}

// reconcileNode brings a node's taints and labels in line with its conditions, in one patch.
func (r *reconciler) reconcileNode(ctx context.Context, node *corev1.Node) (kit.Result, error) {
	taints := followConditions(node)
	labels := missingLabels(node)
	if sameTaints(taints, node.Spec.Taints) && len(labels) == 0 {
		return kit.Done, nil
	}
	if err := r.patchNode(ctx, node, taints, labels); err != nil {
		return kit.Done, fmt.Errorf("taint node %s after its conditions: %w", node.Name, err)
	}
	klog.FromContext(ctx).Info("Changed taints of node", "node", klog.KObj(node), "taints", taintTexts(taints), "labels", labels)
	return kit.Done, nil
}

// nodeChanged lets through what the taints and labels depend on, and not the heartbeats.
func nodeChanged(old, new *corev1.Node) bool {
	if old == nil || new == nil {
		return new != nil
	}
	return old.Spec.Unschedulable != new.Spec.Unschedulable || !sameTaints(old.Spec.Taints, new.Spec.Taints) ||
		!maps.Equal(old.Labels, new.Labels) || !slices.EqualFunc(old.Status.Conditions, new.Status.Conditions,
		func(a, b corev1.NodeCondition) bool { return a.Type == b.Type && a.Status == b.Status })
}
