package statefulset

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/podctl"
	"orrery/kit"
	"orrery/kit/client"
)

// Reasons of the Progressing condition, which only sets of the strategy Recreate have.
const (
	reasonRecreating = "RecreateInProgress"
	reasonRecreated  = "RecreateCompleted"
)

// status returns the status that the set ought to have after a plan by which outdated pods were deleted.
func (s *state) status(p plan, updated []member) appsv1.StatefulSetStatus {
	status := appsv1.StatefulSetStatus{
		ObservedGeneration: s.set.Generation,
		CurrentRevision:    s.current.Name,
		UpdateRevision:     s.update.Name,
		CollisionCount:     &s.collisions,
		Conditions:         s.set.Status.Conditions,
	}
	for _, members := range [][]member{s.replicas, s.condemned} {
		for _, m := range members {
			s.count(&status, m.pod)
		}
	}
	// If the strategy has no partition, staysBehind reads from this number which ordinals are still made from the current
	// revision. A pod that has just been deleted must not count: it would be made from the old revision, and deleted again.
	for _, m := range updated {
		if revisionOf(m.pod) == s.current.Name {
			status.CurrentReplicas--
		}
	}
	if p.progress != "" {
		status.Conditions = s.progressing(status.Conditions, corev1.ConditionTrue, reasonRecreating, p.progress)
	}
	s.complete(&status)
	return status
}

// count adds a pod to the numbers.
func (s *state) count(status *appsv1.StatefulSetStatus, pod *corev1.Pod) {
	status.Replicas++
	if working(pod) {
		status.ReadyReplicas++
		if s.available(pod) {
			status.AvailableReplicas++
		}
	}
	if going(pod) {
		return
	}
	switch revision := revisionOf(pod); {
	case revision == s.current.Name && revision == s.update.Name:
		status.CurrentReplicas++
		status.UpdatedReplicas++
	case revision == s.current.Name:
		status.CurrentReplicas++
	case revision == s.update.Name:
		status.UpdatedReplicas++
	}
}

// complete makes the update revision the current one once every pod has it and is ready, whatever the strategy is.
func (s *state) complete(status *appsv1.StatefulSetStatus) {
	want := int32(s.end - s.first)
	if status.UpdatedReplicas != want || status.ReadyReplicas != want || status.Replicas != want {
		return
	}
	status.CurrentReplicas = status.UpdatedReplicas
	status.CurrentRevision = status.UpdateRevision
	if s.rules.recreate && s.set.Spec.UpdateStrategy.Type == appsv1.RecreateStatefulSetStrategyType && conditionAt(status.Conditions) >= 0 {
		status.Conditions = s.progressing(status.Conditions, corev1.ConditionFalse, reasonRecreated, "All pods recreated successfully")
	}
}

func conditionAt(conditions []appsv1.StatefulSetCondition) int {
	return slices.IndexFunc(conditions, func(c appsv1.StatefulSetCondition) bool { return c.Type == appsv1.StatefulSetProgressing })
}

// progressing returns the conditions with the Progressing condition set. Its time is that of the last change of its status.
func (s *state) progressing(conditions []appsv1.StatefulSetCondition, is corev1.ConditionStatus, reason, message string) []appsv1.StatefulSetCondition {
	next := appsv1.StatefulSetCondition{
		Type: appsv1.StatefulSetProgressing, Status: is, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(s.now),
	}
	at := conditionAt(conditions)
	if at < 0 {
		return append(slices.Clip(conditions), next)
	}
	if conditions[at].Status == is {
		next.LastTransitionTime = conditions[at].LastTransitionTime
	}
	conditions = slices.Clone(conditions)
	conditions[at] = next
	return conditions
}

// report writes the status unless the set has it.
func (r *reconciler) report(ctx context.Context, set *appsv1.StatefulSet, status appsv1.StatefulSetStatus) error {
	if sameStatus(&set.Status, &status) {
		return nil
	}
	klog.FromContext(ctx).V(4).Info("Updating status", "statefulSet", klog.KObj(set), "replicas", status.Replicas,
		"readyReplicas", status.ReadyReplicas, "currentReplicas", status.CurrentReplicas, "updatedReplicas", status.UpdatedReplicas)
	next := &appsv1.StatefulSet{ObjectMeta: set.ObjectMeta, Status: status}
	if _, err := client.UpdateStatus(ctx, r.client, next, client.Brief); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("update status of %s: %w", klog.KObj(set), err)
	}
	return nil
}

// sameStatus compares what users see. The count of collisions alone is not worth a write: it matters when the next
// revision is made, and then the revisions change too.
func sameStatus(old, next *appsv1.StatefulSetStatus) bool {
	return next.ObservedGeneration <= old.ObservedGeneration && old.Replicas == next.Replicas &&
		old.ReadyReplicas == next.ReadyReplicas && old.AvailableReplicas == next.AvailableReplicas &&
		old.CurrentReplicas == next.CurrentReplicas && old.UpdatedReplicas == next.UpdatedReplicas &&
		old.CurrentRevision == next.CurrentRevision && old.UpdateRevision == next.UpdateRevision &&
		slices.Equal(old.Conditions, next.Conditions)
}

// nextReconcile asks for a reconcile when the next pod has been ready for long enough.
func (s *state) nextReconcile(status appsv1.StatefulSetStatus) kit.Result {
	seconds := s.set.Spec.MinReadySeconds
	if seconds <= 0 || status.ReadyReplicas == status.AvailableReplicas {
		return kit.Done
	}
	var next kit.Result
	for _, members := range [][]member{s.replicas, s.condemned} {
		for _, m := range members {
			if wait, ok := podctl.AvailableIn(m.pod, seconds, s.now); ok {
				next = kit.Sooner(next, kit.After(wait))
			}
		}
	}
	if next == kit.Done {
		// A ready pod without the time of that is never available. Whether it still lacks the time is cheap to check.
		next = kit.After(time.Duration(seconds) * time.Second)
	}
	return next
}
