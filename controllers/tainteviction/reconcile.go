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

// recheck is how often the server is asked for a node that is seen with a taint it does not have.
const recheck = 5 * time.Second

type reconciler struct {
	pods     cache.Store[*corev1.Pod]
	nodes    cache.Store[*corev1.Node]
	client   *client.Client
	live     *client.Client
	recorder record.EventRecorder
	metrics  metrics
	pending  *pendingSet
	arrived  sync.Map // key to UID of the pods that were found on a tainted node as they came there
	compare  bool
	wake     *kit.Trigger[kit.Key]
}

// reconcileNode calls for all pods of a node whose taints have changed.
func (r *reconciler) reconcileNode(_ context.Context, key kit.Key) (kit.Result, error) {
	for _, pod := range r.pods.By(index.PodsByNode(), key.Name) {
		r.wake.Add(kit.KeyOf(pod))
	}
	return kit.Done, nil
}

// Reconcile deletes a pod whose time under its node's taints is over, waits for that time, or calls the deletion off.
func (r *reconciler) Reconcile(ctx context.Context, key kit.Key) (kit.Result, error) {
	pod, ok := r.pods.Get(key)
	if !ok || pod.Spec.NodeName == "" {
		r.arrived.Delete(key)
		r.callOff(ctx, key)
		return kit.Done, nil
	}
	if stays, err := r.cameAfterTheTaint(ctx, key, pod); stays || err != nil {
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

// cameAfterTheTaint reports whether a pod that is new on its node would be evicted at once for taints that the server
// has meanwhile taken off: the scheduler may know of that first. The node's own change comes later, so the answer is
// asked for again until then.
func (r *reconciler) cameAfterTheTaint(ctx context.Context, key kit.Key, pod *corev1.Pod) (bool, error) {
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

// dueAt returns when a pod has to go, and notes it. A time once noted stands while the pod has to go some time; if it
// now has to go at once, the wait is called off first, as it always was.
func (r *reconciler) dueAt(ctx context.Context, key kit.Key, pod *corev1.Pod, now time.Time) (due deletion, leaves bool) {
	stay, leaves := tolerated(pod, r.taintsOf(pod), r.compare)
	old, waits := r.pending.get(key, pod.UID)
	switch {
	case !leaves:
		r.callOff(ctx, key)
		return deletion{}, false
	case waits && stay > 0:
		return old, true
	case waits && now.Before(old.at):
		r.callOff(ctx, key)
	case waits:
		return old, true
	}
	due = deletion{uid: pod.UID, at: now.Add(stay)}
	r.pending.set(key, due)
	return due, true
}

// callOff drops a pending deletion and says so.
func (r *reconciler) callOff(ctx context.Context, key kit.Key) {
	if r.pending.drop(key) {
		r.recorder.Eventf(reference(key), corev1.EventTypeNormal, "TaintManagerEviction", "Cancelling deletion of Pod %s", key)
		klog.FromContext(ctx).V(2).Info("Called off the eviction of pod", "pod", key)
	}
}

// evict deletes a pod, after marking it so that its owner knows why. One that has been evicted before and takes its time
// to stop needs nothing.
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
		// A conflict may be that of a pod that others write to all the time: it is not to stay for that.
		return client.IgnoreNotFound(fmt.Errorf("mark pod %s for its eviction: %w", key, err))
	}
	if err := client.Delete(ctx, r.client, pod, client.IfUID(pod.UID)); err != nil {
		// A pod that is gone, or has a successor of the same name, needs no eviction.
		return client.IgnoreNotFound(client.IgnoreConflict(fmt.Errorf("evict pod %s: %w", key, err)))
	}
	r.metrics.deletions.Inc()
	r.metrics.latency.Observe(time.Since(due.at).Seconds())
	klog.FromContext(ctx).Info("Evicted pod", "pod", klog.KObj(pod), "node", pod.Spec.NodeName)
	return nil
}

// taintsOf returns the taints that evict of the node that a pod runs on.
func (r *reconciler) taintsOf(pod *corev1.Pod) []corev1.Taint {
	node, ok := r.nodes.Get(kit.Key{Name: pod.Spec.NodeName})
	if !ok {
		return nil
	}
	return noExecute(node)
}

// reference names a pod in events by name alone, as these events always have.
func reference(key kit.Key) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: key.Namespace, Name: key.Name}
}
