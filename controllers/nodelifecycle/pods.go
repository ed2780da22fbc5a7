package nodelifecycle

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/index"
	"orrery/controllers/internal/podctl"
	"orrery/controllers/internal/podstatus"
	"orrery/kit"
	"orrery/kit/client"
)

// podsAtOnce bounds the pods of one node that are marked concurrently.
const podsAtOnce = 20

// markPods marks the pods of a lost node as not ready, so that Services leave them out.
func (r *reconciler) markPods(ctx context.Context, node string) error {
	pods := r.pods.By(index.PodsByNode(), node)
	return kit.Batch(ctx, len(pods), podsAtOnce, func(ctx context.Context, i int) error { return r.markPod(ctx, pods[i]) })
}

func (r *reconciler) markPod(ctx context.Context, pod *corev1.Pod) error {
	ready := podctl.Condition(pod, corev1.PodReady)
	if ready == nil || ready.Status == corev1.ConditionFalse {
		return nil
	}
	want := *ready
	want.Status = corev1.ConditionFalse
	patch, needed, err := podstatus.Patch(pod, podstatus.Change{Conditions: []corev1.PodCondition{want}}, time.Now())
	if err != nil || !needed {
		return err
	}
	if _, err := client.PatchObject(ctx, r.client, pod, patch, client.Status, client.Brief); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("mark pod %s not ready: %w", klog.KObj(pod), err))
	}
	r.recorder.Event(pod, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
	klog.FromContext(ctx).V(2).Info("Marked pod not ready", "pod", klog.KObj(pod), "node", pod.Spec.NodeName)
	return nil
}

// placedOnLostNode picks pods that have just been bound to a node that is not ready. Those that a node has when it is lost
// are marked together with it.
func (r *reconciler) placedOnLostNode(old, new *corev1.Pod) []kit.Key {
	if new == nil || new.Spec.NodeName == "" || old != nil && old.Spec.NodeName == new.Spec.NodeName || !r.lostNode(new.Spec.NodeName) {
		return nil
	}
	return []kit.Key{kit.KeyOf(new)}
}

// lostNode reports whether a node has a ready condition that is not true.
func (r *reconciler) lostNode(name string) bool {
	node, ok := r.nodes.Get(kit.Key{Name: name})
	if !ok {
		return false
	}
	ready := condition(node, corev1.NodeReady)
	return ready != nil && ready.Status != corev1.ConditionTrue
}

// reconcilePod marks a pod on a lost node as not ready.
func (r *reconciler) reconcilePod(ctx context.Context, pod *corev1.Pod) (kit.Result, error) {
	if !r.lostNode(pod.Spec.NodeName) {
		return kit.Done, nil
	}
	return kit.Done, r.markPod(ctx, pod)
}
