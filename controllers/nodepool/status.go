package nodepool

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"orrery/api/nodes/v1alpha1"
	"orrery/kit/client"
)

// statusOf returns the status of a pool.
func statusOf(k *known, c census, t turns, class classState, now time.Time) v1alpha1.NodePoolStatus {
	s := v1alpha1.NodePoolStatus{
		ObservedGeneration: k.api.Generation, Selector: metav1.FormatLabelSelector(k.api.Selector()),
		NodeCount: int32(c.nodes), ReadyNodeCount: int32(c.ready), UpdatedNodeCount: int32(c.updated),
		ConflictedNodeCount: int32(c.conflicted), FailedNodeCount: int32(c.failed),
		RuntimeClassName: class.name, ProblemNodes: c.problems, Plan: c.plan, Conditions: slices.Clone(k.api.Status.Conditions),
	}
	if len(c.capacity)+len(c.allocatable) > 0 {
		s.Capacity, s.Allocatable = c.capacity, c.allocatable
	}
	updated, degraded, rc := nodesUpdated(k, c, t), degradedBy(k, c), class.condition(k)
	set := conditions{s: &s, now: now}
	set.put(updated)
	set.put(conflicted(c))
	set.put(degraded)
	ready := condition(v1alpha1.ConditionReady, true, "AsAsked", "All nodes of the pool are as it asks")
	switch {
	case degraded.Status == metav1.ConditionTrue:
		ready = condition(v1alpha1.ConditionReady, false, degraded.Reason, degraded.Message)
	case updated.Status == metav1.ConditionFalse:
		ready = condition(v1alpha1.ConditionReady, false, updated.Reason, updated.Message)
	case rc != nil && rc.Status == metav1.ConditionFalse:
		ready = condition(v1alpha1.ConditionReady, false, rc.Reason, rc.Message)
	}
	if rc != nil {
		set.put(*rc)
	} else {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionRuntimeClassReady)
	}
	set.put(ready)
	return s
}

// leavingStatus returns the status of a pool that is being deleted while nodes still carry it.
func leavingStatus(k *known, left []string, trouble string, now time.Time) v1alpha1.NodePoolStatus {
	s := *k.api.Status.DeepCopy()
	s.ObservedGeneration, s.Plan = k.api.Generation, nil
	message := fmt.Sprintf("%d nodes still have a record of the pool, the first is %s", len(left), left[0])
	if trouble != "" {
		message += ": " + trouble
	}
	set := conditions{s: &s, now: now}
	set.put(condition(v1alpha1.ConditionReady, false, "Deleting", message))
	if trouble != "" {
		set.put(condition(v1alpha1.ConditionDegraded, true, "CleanupBlocked", message))
	}
	return s
}

func condition(kind string, status bool, reason, message string) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if status {
		c.Status = metav1.ConditionTrue
	}
	return c
}

// conditions sets the conditions of a status.
type conditions struct {
	s   *v1alpha1.NodePoolStatus
	now time.Time
}

func (c conditions) put(n metav1.Condition) {
	n.ObservedGeneration = c.s.ObservedGeneration
	n.LastTransitionTime = metav1.NewTime(c.now.UTC().Truncate(time.Second))
	meta.SetStatusCondition(&c.s.Conditions, n)
}

// nodesUpdated returns the condition that reports the progress of the nodes.
func nodesUpdated(k *known, c census, t turns) metav1.Condition {
	const kind = v1alpha1.ConditionNodesUpdated
	progress := fmt.Sprintf("%d of %d nodes are as the pool asks", c.updated, c.nodes)
	switch {
	case k.problem != nil:
		return condition(kind, false, reasonInvalid, "No node is changed: "+k.problem.Error())
	case k.pool.Audit && c.pending > 0:
		return condition(kind, false, "Audit", fmt.Sprintf("%d nodes would be changed; see status.plan", c.pending))
	case c.updated == c.nodes:
		return condition(kind, true, "UpToDate", progress)
	case k.api.Spec.Paused:
		return condition(kind, false, "Paused", progress+"; the pool is paused")
	case t.waiting > 0 && t.brokenNode != "":
		return condition(kind, false, "RolloutStopped", fmt.Sprintf("%s; node %s has become not ready since it was changed, and no further node is changed until it is ready", progress, t.brokenNode))
	case t.waiting > 0:
		return condition(kind, false, "RollingOut", fmt.Sprintf("%s; %d wait for their turn", progress, t.waiting))
	}
	return condition(kind, false, "Updating", progress)
}

func conflicted(c census) metav1.Condition {
	if c.conflicted == 0 {
		return condition(v1alpha1.ConditionConflicted, false, "NoConflict", "No key of the pool is left to others")
	}
	return condition(v1alpha1.ConditionConflicted, true, "KeysLeftToOthers",
		fmt.Sprintf("Keys of the pool are left to others on %d nodes; see status.problemNodes", c.conflicted))
}

// degradedBy returns the condition that reports what needs a human.
func degradedBy(k *known, c census) metav1.Condition {
	const kind = v1alpha1.ConditionDegraded
	switch {
	case k.problem != nil:
		return condition(kind, true, reasonInvalid, k.problem.Error())
	case c.malformed:
		return condition(kind, true, reasonMalformed, fmt.Sprintf("%d nodes cannot be written, some because their record of pools cannot be read; see status.problemNodes", c.failed))
	case c.failed > 0:
		return condition(kind, true, reasonFailed, fmt.Sprintf("%d nodes cannot be written; see status.problemNodes", c.failed))
	}
	return condition(kind, false, "NoProblem", "Nothing needs attention")
}

// writeStatus stores a status if it has changed, and publishes events for conditions that have changed.
func (r *reconciler) writeStatus(ctx context.Context, k *known, s v1alpha1.NodePoolStatus) error {
	_, written := k.raw.Object["status"]
	if written && equality.Semantic.DeepEqual(k.api.Status, s) {
		return nil
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&s)
	if err != nil {
		return fmt.Errorf("write the status of NodePool %s: %w", k.api.Name, err)
	}
	if old, ok := k.raw.Object["status"].(map[string]any); ok && reflect.DeepEqual(old, status) {
		return nil
	}
	next := k.raw.DeepCopy()
	next.Object["status"] = status
	if _, err := client.UpdateStatus(ctx, r.client, next); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write the status of NodePool %s: %w", k.api.Name, err))
	}
	r.announce(k, s)
	return nil
}

// announce publishes an event for each condition that has become true or false, except for Ready, which sums them up.
func (r *reconciler) announce(k *known, s v1alpha1.NodePoolStatus) {
	for _, c := range s.Conditions {
		old := meta.FindStatusCondition(k.api.Status.Conditions, c.Type)
		good := metav1.ConditionTrue
		if c.Type == v1alpha1.ConditionConflicted || c.Type == v1alpha1.ConditionDegraded {
			good = metav1.ConditionFalse
		}
		switch {
		case c.Type == v1alpha1.ConditionReady, old != nil && old.Status == c.Status:
		case c.Status == good:
			if old != nil || c.Type == v1alpha1.ConditionNodesUpdated && s.NodeCount > 0 {
				r.recorder.Event(k.reference(), corev1.EventTypeNormal, c.Reason, c.Message)
			}
		case c.Type == v1alpha1.ConditionNodesUpdated:
			r.recorder.Event(k.reference(), corev1.EventTypeNormal, c.Reason, c.Message)
		default:
			r.recorder.Event(k.reference(), corev1.EventTypeWarning, c.Reason, c.Message)
		}
	}
}

// reference returns the object reference for events.
func (k *known) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{
		Kind: v1alpha1.NodePoolKind.Kind, APIVersion: v1alpha1.SchemeGroupVersion.String(), Name: k.api.Name, UID: k.api.UID,
		ResourceVersion: k.raw.GetResourceVersion(),
	}
}
