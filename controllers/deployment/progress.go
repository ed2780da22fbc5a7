package deployment

import (
	"fmt"
	"math"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Reasons of the Progressing condition.
const (
	reasonCreated     = "NewReplicaSetCreated"
	reasonFound       = "FoundNewReplicaSet"
	reasonCreateError = "ReplicaSetCreateError"
	reasonUpdated     = "ReplicaSetUpdated"
	reasonAvailable   = "NewReplicaSetAvailable"
	reasonTimedOut    = "ProgressDeadlineExceeded"
	reasonPaused      = "DeploymentPaused"
	reasonResumed     = "DeploymentResumed"
)

// deadline returns how long a rollout may go without progress; ok is false if there is no limit.
func deadline(d *appsv1.Deployment) (limit time.Duration, ok bool) {
	if s := d.Spec.ProgressDeadlineSeconds; s != nil && *s != math.MaxInt32 {
		return time.Duration(*s) * time.Second, true
	}
	return 0, false
}

// paused returns the conditions with the start or end of a pause recorded. The end of a pause restarts the deadline. A
// deadline that was exceeded before the pause stays recorded.
func paused(d *appsv1.Deployment, list []appsv1.DeploymentCondition, now time.Time) []appsv1.DeploymentCondition {
	if _, ok := deadline(d); !ok {
		return list
	}
	reason := ""
	if c := findCondition(list, appsv1.DeploymentProgressing); c != nil {
		reason = c.Reason
	}
	switch {
	case reason == reasonTimedOut:
	case d.Spec.Paused:
		return withCondition(list, condition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, reasonPaused, "Deployment is paused", now))
	case reason == reasonPaused:
		return withCondition(list, condition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, reasonResumed, "Deployment is resumed", now))
	}
	return list
}

// progressed returns the conditions of the new status s, with the Progressing condition brought up to date from the
// difference to the stored status, and, while the rollout is under way, the time after which to check the deadline.
func progressed(d *appsv1.Deployment, s appsv1.DeploymentStatus, desired int32, current *appsv1.ReplicaSet, now time.Time) ([]appsv1.DeploymentCondition, time.Duration) {
	limit, ok := deadline(d)
	if !ok {
		return without(s.Conditions, appsv1.DeploymentProgressing), 0
	}
	was := findCondition(s.Conditions, appsv1.DeploymentProgressing)
	if was != nil && was.Reason == reasonAvailable && s.Replicas == s.UpdatedReplicas && !ofAnother(was, current) {
		return s.Conditions, 0 // the last rollout has ended, and nothing else has begun
	}
	subject := fmt.Sprintf("Deployment %q", d.Name)
	if current != nil {
		subject = fmt.Sprintf("ReplicaSet %q", current.Name)
	}
	say := func(status corev1.ConditionStatus, reason, predicate string) appsv1.DeploymentCondition {
		return condition(appsv1.DeploymentProgressing, status, reason, subject+predicate, now)
	}
	list := s.Conditions
	switch {
	case isComplete(s, d.Generation, desired) && ofAnother(was, current) && isProgress(d.Status, s):
		return withNewer(list, say(corev1.ConditionTrue, reasonAvailable, succeeded)), 0
	case isComplete(s, d.Generation, desired):
		return withCondition(list, say(corev1.ConditionTrue, reasonAvailable, succeeded)), 0
	case isProgress(d.Status, s):
		list = withNewer(list, say(corev1.ConditionTrue, reasonUpdated, " is progressing."))
	case isTimedOut(was, limit, now):
		return withCondition(list, say(corev1.ConditionFalse, reasonTimedOut, " has timed out progressing.")), 0
	}
	return list, untilDeadline(findCondition(list, appsv1.DeploymentProgressing), limit, now)
}

// succeeded ends the message of the Progressing condition once a rollout is complete; it follows the ReplicaSet's name.
const succeeded = " has successfully progressed."

// ofAnother reports whether a condition records the completion of a rollout to a ReplicaSet other than the current one.
// The current rollout must then not be taken for complete. Its beginning goes unrecorded if the process stopped before it
// wrote the status, or if nothing marks it, as in a rollback to a ReplicaSet that still exists.
func ofAnother(c *appsv1.DeploymentCondition, current *appsv1.ReplicaSet) bool {
	if c == nil || current == nil || c.Reason != reasonAvailable {
		return false
	}
	name, ok := strings.CutSuffix(c.Message, succeeded)
	return ok && strings.HasPrefix(name, `ReplicaSet "`) && name != fmt.Sprintf("ReplicaSet %q", current.Name)
}

// isProgress reports whether the rollout has progressed between two statuses: there are more pods of the current template,
// fewer old ones, or more that are ready or available.
func isProgress(was, is appsv1.DeploymentStatus) bool {
	return is.UpdatedReplicas > was.UpdatedReplicas ||
		is.Replicas-is.UpdatedReplicas < was.Replicas-was.UpdatedReplicas ||
		is.ReadyReplicas > was.ReadyReplicas ||
		is.AvailableReplicas > was.AvailableReplicas
}

// isTimedOut reports whether the deadline has passed since the Progressing condition last recorded progress. A condition
// left by an earlier rollout that completed says nothing about this one.
func isTimedOut(c *appsv1.DeploymentCondition, limit time.Duration, now time.Time) bool {
	switch {
	case c == nil || c.Reason == reasonAvailable:
		return false
	case c.Reason == reasonTimedOut:
		return true
	}
	return c.LastUpdateTime.Add(limit).Before(now)
}

// untilDeadline returns the time after which isTimedOut may be true, 0 for never. It adds a second because the times of
// conditions are stored in whole seconds.
func untilDeadline(c *appsv1.DeploymentCondition, limit time.Duration, now time.Time) time.Duration {
	if c == nil || c.Reason == reasonAvailable || c.Reason == reasonTimedOut {
		return 0
	}
	return max(0, c.LastUpdateTime.Add(limit).Sub(now)) + time.Second
}

// withFailure returns the conditions with ReplicaFailure copied from a ReplicaSet that reports it, preferably the current
// one, and without it if none does.
func withFailure(list []appsv1.DeploymentCondition, current *appsv1.ReplicaSet, all []*appsv1.ReplicaSet) []appsv1.DeploymentCondition {
	var found *appsv1.ReplicaSetCondition
	for _, rs := range all {
		if found != nil && rs != current {
			continue
		}
		for i, c := range rs.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure {
				found = &rs.Status.Conditions[i]
				break
			}
		}
	}
	if found == nil {
		return without(list, appsv1.DeploymentReplicaFailure)
	}
	return withCondition(list, appsv1.DeploymentCondition{
		Type: appsv1.DeploymentReplicaFailure, Status: found.Status, Reason: found.Reason, Message: found.Message,
		LastTransitionTime: found.LastTransitionTime, LastUpdateTime: found.LastTransitionTime,
	})
}
