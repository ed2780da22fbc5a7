package tainteviction

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/index"
	"orrery/controllers/internal/podstatus"
	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

// recheck is how often a node is read from the server while the cache shows a taint that it no longer has.
const recheck = 5 * time.Second

type reconciler struct {
	pods     cache.Store[*corev1.Pod]
	nodes    cache.Store[*corev1.Node]
	client   *client.Client
	live     *client.Client
	recorder record.EventRecorder
	metrics  metrics
	pending  *pendingSet
	arrived  sync.Map // key to UID of pods that have just been bound to a node that the cache shows as tainted
	compare  bool
	wake     *kit.Trigger[kit.Key]
}

// reconcileNode queues all pods of a node whose taints have changed.
func (r *reconciler) reconcileNode(_ context.Context, key kit.Key) (kit.Result, error) {
	for _, pod := range r.pods.By(index.PodsByNode(), key.Name) {
		r.wake.Add(kit.KeyOf(pod))
	}
	return kit.Done, nil
}

// Reconcile deletes a pod that no longer tolerates its node's taints, waits until it is due, or cancels the deletion.
func (r *reconciler) Reconcile(ctx context.Context, key kit.Key) (kit.Result, error) {
	pod, ok := r.pods.Get(key)
	if !ok || pod.Spec.NodeName == "" {
		r.arrived.Delete(key)
		r.cancel(ctx, key)
		return kit.Done, nil
	}
	if stays, err := r.boundAfterTaint(ctx, key, pod); stays || err != nil {
		return kit.After(recheck), err
	}
	due, waits := r.pending.get(key, pod.UID)
	if _, nodeKnown := r.nodes.Get(kit.Key{Name: pod.Spec.NodeName}); nodeKnown || !waits {
		var leaves bool
		if due, leaves = r.dueAt(ctx, key, pod, time.Now()); !leaves {
			return kit.Done, nil
		}
	}
	if left := time.Until(due.at); left > 0 {
		return kit.After(left), nil
	}
	if err := r.evict(ctx, pod, due); err != nil {
		return kit.Done, err
	}
	r.pending.drop(key)
	return kit.Done, nil
}

// boundAfterTaint reports whether a pod that is new on its node would be evicted at once because of taints that are
// already removed: the scheduler may have seen the removal before this cache. The caller checks again until the cache
// shows it too.
func (r *reconciler) boundAfterTaint(ctx context.Context, key kit.Key, pod *corev1.Pod) (bool, error) {
	uid, ok := r.arrived.Load(key)
	if !ok || uid != pod.UID {
		return false, nil
	}
	if stay, leaves := tolerated(pod, r.taintsOf(pod), r.compare); leaves && stay == 0 {
		node, err := client.Get[corev1.Node](ctx, r.live, kit.Key{Name: pod.Spec.NodeName})
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("read the node of pod %s: %w", key, err)
		}
		if stay, leaves := tolerated(pod, noExecute(node), r.compare); err != nil || !leaves || stay > 0 {
			return true, nil
		}
	}
	r.arrived.Delete(key)
	return false, nil
}

// dueAt returns when a pod has to be evicted, and records it. A recorded time is kept as long as the pod has to be evicted
// eventually. If it must now be evicted at once, the pending deletion is cancelled first, with its event, as upstream does.
func (r *reconciler) dueAt(ctx context.Context, key kit.Key, pod *corev1.Pod, now time.Time) (due deletion, leaves bool) {
	stay, leaves := tolerated(pod, r.taintsOf(pod), r.compare)
	old, waits := r.pending.get(key, pod.UID)
	switch {
	case !leaves:
		r.cancel(ctx, key)
		return deletion{}, false
	case waits && stay > 0:
		return old, true
	case waits && now.Before(old.at):
		r.cancel(ctx, key)
	case waits:
		return old, true
	}
	due = deletion{uid: pod.UID, at: now.Add(stay)}
	r.pending.set(key, due)
	return due, true
}

// cancel drops a pending deletion, if there is one, and publishes an event about it.
func (r *reconciler) cancel(ctx context.Context, key kit.Key) {
	if r.pending.drop(key) {
		r.recorder.Eventf(reference(key), corev1.EventTypeNormal, "TaintManagerEviction", "Cancelling deletion of Pod %s", key)
		klog.FromContext(ctx).V(2).Info("Cancelled the eviction of a pod", "pod", key)
	}
}

// evict deletes a pod, after setting the condition that tells its owner why. It does nothing for a pod that has been
// evicted before and is still terminating.
func (r *reconciler) evict(ctx context.Context, pod *corev1.Pod, due deletion) error {
	key := kit.KeyOf(pod)
	patch, unmarked, err := podstatus.Patch(pod, podstatus.Change{Conditions: []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, ObservedGeneration: pod.Generation,
		Reason: "DeletionByTaintManager", Message: "Taint manager: deleting due to NoExecute taint",
	}}}, time.Now())
	if pod.DeletionTimestamp != nil && !unmarked {
		return nil
	}
	if !due.told {
		r.recorder.Eventf(reference(key), corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod %s", key)
		due.told = true
		r.pending.set(key, due)
	}
	if err == nil && unmarked {
		_, err = client.PatchObject(ctx, r.client, pod, patch, client.Status, client.Brief)
	}
	if err != nil {
		// A conflict is returned, and so retried: a pod that others keep writing to must be evicted too.
		return client.IgnoreNotFound(fmt.Errorf("mark pod %s for its eviction: %w", key, err))
	}
	if err := client.Delete(ctx, r.client, pod, client.IfUID(pod.UID)); err != nil {
		// The pod no longer exists, or was replaced by one of the same name.
		return client.IgnoreNotFound(client.IgnoreConflict(fmt.Errorf("evict pod %s: %w", key, err)))
	}
	r.metrics.deletions.Inc()
	r.metrics.latency.Observe(time.Since(due.at).Seconds())
	klog.FromContext(ctx).Info("Evicted pod", "pod", klog.KObj(pod), "node", pod.Spec.NodeName)
	return nil
}

// taintsOf returns the NoExecute taints of the node that a pod is bound to.
func (r *reconciler) taintsOf(pod *corev1.Pod) []corev1.Taint {
	node, ok := r.nodes.Get(kit.Key{Name: pod.Spec.NodeName})
	if !ok {
		return nil
	}
	return noExecute(node)
}

// reference refers to a pod by name alone, without its UID, as upstream's events do.
func reference(key kit.Key) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: key.Namespace, Name: key.Name}
}
