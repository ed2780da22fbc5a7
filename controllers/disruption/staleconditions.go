package disruption

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/podctl"
	"orrery/controllers/internal/podstatus"
	"orrery/kit"
	"orrery/kit/client"
)

// staleAfter is how long a pod may be marked as about to be disrupted without being deleted.
const staleAfter = 2 * time.Minute

// staleConditions clears the DisruptionTarget condition of pods that were not disrupted after all.
type staleConditions struct {
	client *client.Client
}

// Reconcile sets the condition of one pod to false once it is stale.
func (r *staleConditions) Reconcile(ctx context.Context, pod *corev1.Pod) (kit.Result, error) {
	since, ok := markedSince(pod)
	if !ok {
		return kit.Done, nil
	}
	now := time.Now()
	if left := since.Add(staleAfter).Sub(now); left > 0 {
		return kit.After(left), nil
	}
	// Bound to the version read, so as not to overwrite a condition that the kubelet sets at this moment.
	patch, _, err := podstatus.Patch(pod, podstatus.Change{OnlyThisVersion: true, Conditions: []corev1.PodCondition{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, ObservedGeneration: pod.Generation},
	}}, now)
	if err == nil {
		_, err = client.PatchObject(ctx, r.client, pod, patch, client.Status, client.Brief)
	}
	if err != nil {
		return kit.Done, client.IgnoreNotFound(fmt.Errorf("clear the disruption condition of pod %s: %w", klog.KObj(pod), err))
	}
	klog.FromContext(ctx).V(2).Info("Cleared a stale disruption condition", "pod", klog.KObj(pod))
	return kit.Done, nil
}

// marked accepts only pods that are about to be disrupted.
func marked(_, pod *corev1.Pod) bool {
	if pod == nil {
		return false
	}
	_, ok := markedSince(pod)
	return ok
}

// markedSince returns since when a pod has been marked as about to be disrupted. ok is false for pods that are not marked,
// are being deleted or have ended. A mark by the kubelet is ignored: it never becomes stale, since stopping a pod may take
// any amount of time.
func markedSince(pod *corev1.Pod) (since time.Time, ok bool) {
	c := podctl.Condition(pod, corev1.DisruptionTarget)
	if c == nil || c.Status != corev1.ConditionTrue || c.Reason == corev1.PodReasonTerminationByKubelet || !podctl.Active(pod) {
		return since, false
	}
	return c.LastTransitionTime.Time, true
}
