package deployment

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// counted returns the status with its numbers, and the Available condition that follows from them, computed from the
// ReplicaSets. withTerminating is the feature gate of status.terminatingReplicas.
func counted(was appsv1.DeploymentStatus, generation int64, b bounds, current *appsv1.ReplicaSet, all []*appsv1.ReplicaSet, withTerminating bool, now time.Time) appsv1.DeploymentStatus {
	s := appsv1.DeploymentStatus{
		ObservedGeneration: generation,
		Replicas:           sum(all, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.Replicas }),
		ReadyReplicas:      sum(all, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.ReadyReplicas }),
		AvailableReplicas:  sum(all, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.AvailableReplicas }),
		CollisionCount:     was.CollisionCount,
		Conditions:         was.Conditions,
	}
	if current != nil {
		s.UpdatedReplicas = current.Status.Replicas
	}
	// While old pods are being deleted, more pods may be available than the total size.
	s.UnavailableReplicas = max(0, sum(all, size)-s.AvailableReplicas)
	if withTerminating {
		s.TerminatingReplicas = terminating(all)
	}
	if s.AvailableReplicas >= b.floor() {
		s.Conditions = withCondition(s.Conditions, condition(appsv1.DeploymentAvailable, corev1.ConditionTrue,
			"MinimumReplicasAvailable", "Deployment has minimum availability.", now))
	} else {
		s.Conditions = withCondition(s.Conditions, condition(appsv1.DeploymentAvailable, corev1.ConditionFalse,
			"MinimumReplicasUnavailable", "Deployment does not have minimum availability.", now))
	}
	return s
}

// terminating adds up the terminating pods, or returns nil if a ReplicaSet does not report them. A ReplicaSet that its
// controller has not observed yet has none.
func terminating(sets []*appsv1.ReplicaSet) *int32 {
	var total int32
	for _, rs := range sets {
		switch n := rs.Status.TerminatingReplicas; {
		case n != nil:
			total += *n
		case rs.Status.ObservedGeneration != 0:
			return nil
		}
	}
	return &total
}

// isComplete reports whether a status shows a complete rollout: all desired pods have the current template and are
// available, and there are no others.
func isComplete(s appsv1.DeploymentStatus, generation int64, desired int32) bool {
	return s.ObservedGeneration >= generation &&
		s.Replicas == desired && s.UpdatedReplicas == desired && s.AvailableReplicas == desired
}

func condition(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string, now time.Time) appsv1.DeploymentCondition {
	return appsv1.DeploymentCondition{
		Type: kind, Status: status, Reason: reason, Message: message,
		LastUpdateTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}
}

// findCondition returns the condition of a type, or nil. It points into the list.
func findCondition(list []appsv1.DeploymentCondition, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	i := slices.IndexFunc(list, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// withCondition returns the list with a condition set. A present condition with the same status and reason stays as it is,
// message included. The list given is not changed.
func withCondition(list []appsv1.DeploymentCondition, c appsv1.DeploymentCondition) []appsv1.DeploymentCondition {
	if was := findCondition(list, c.Type); was != nil && was.Status == c.Status && was.Reason == c.Reason {
		return list
	}
	return withNewer(list, c)
}

// withNewer is withCondition, but replaces the condition even if status and reason are the same, for its update time.
func withNewer(list []appsv1.DeploymentCondition, c appsv1.DeploymentCondition) []appsv1.DeploymentCondition {
	if was := findCondition(list, c.Type); was != nil && was.Status == c.Status {
		c.LastTransitionTime = was.LastTransitionTime
	}
	return append(slices.Clip(without(list, c.Type)), c)
}

// without returns the list without the condition of a type. The list given is not changed.
func without(list []appsv1.DeploymentCondition, kind appsv1.DeploymentConditionType) []appsv1.DeploymentCondition {
	if findCondition(list, kind) == nil {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
}
