package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Reasons of the events about the suspension of a Job.
const (
	reasonSuspended = "Suspended"
	reasonResumed   = "Resumed"
)

// statusOf returns the status of a Job after a change, before what has newly finished is accounted for. It shares nothing
// with the Job that is written to later. turned is the reason of the event if the Job has been suspended or resumed.
func statusOf(v *view, e ending, c change, clearsStartTime bool) (s batchv1.JobStatus, turned string) {
	s = v.job.Status
	s.Conditions = slices.Clone(s.Conditions)
	kept := v.trackedUIDs()
	settle(&s, func(uid types.UID) bool { return !kept[uid] })
	s.Active = int32(c.active(v))
	s.Ready = new(int32(v.ready - c.removedReady))
	s.Terminating = new(int32(v.terminating + len(c.removed)))
	if s.StartTime == nil && !suspended(v.job) {
		s.StartTime = &metav1.Time{Time: v.now}
	}
	if v.job.DeletionTimestamp == nil && !(e.decided() && suspended(v.job)) {
		turned = turn(&s, suspended(v.job), clearsStartTime, v.now)
	}
	if began := v.job.Status.StartTime; e.decided() && began != nil {
		s.StartTime = began // resumed, and over before that was on record, as where the process before ended in between
	}
	if n := v.job.Spec.Completions; e.decided() && s.StartTime == nil && (n == nil || *n != 0) {
		s.StartTime = &metav1.Time{Time: v.now} // the server takes no finished Job without
	}
	if indexed(v.job) {
		s.Succeeded, s.CompletedIndexes, s.FailedIndexes = succeededOf(v), v.completed.String(), nil
		if perIndex(v.job) {
			s.FailedIndexes = new(v.lost.String())
		}
	}
	if e.decided() && !e.declared {
		set(&s, condition(e.interim(), corev1.ConditionTrue, e.reason, e.message, v.now))
	}
	return s, turned
}

// succeededOf returns the number of completed indexes of an Indexed Job. It shrinks with the number of completions, which
// a user sets to the parallelism. If only the parallelism has changed since, the server takes no smaller number, and with
// it would refuse all else that the status says.
func succeededOf(v *view) int32 {
	n := int32(v.completed.Len())
	if !ptr.Equal(v.job.Spec.Completions, v.job.Spec.Parallelism) {
		n = max(n, v.job.Status.Succeeded)
	}
	return n
}

// turn notes in the status that the Job has been suspended or resumed, and returns the reason of the event about it.
// The time that a suspended Job was active before does not count: its start time begins anew.
func turn(s *batchv1.JobStatus, suspended, clears bool, now time.Time) string {
	is := conditionOf(s, batchv1.JobSuspended)
	if !suspended {
		was := is != nil && is.Status == corev1.ConditionTrue
		if is == nil || !set(s, condition(batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed", now)) {
			return ""
		}
		if was { // else somebody has written the condition, and the server refuses to change the start
			s.StartTime = &metav1.Time{Time: now}
		}
		return reasonResumed
	}
	if !set(s, condition(batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended", now)) {
		return ""
	}
	if clears {
		s.StartTime = nil
	}
	return reasonSuspended
}

func conditionOf(s *batchv1.JobStatus, kind batchv1.JobConditionType) *batchv1.JobCondition {
	at := slices.IndexFunc(s.Conditions, func(c batchv1.JobCondition) bool { return c.Type == kind })
	if at < 0 {
		return nil
	}
	return &s.Conditions[at]
}

// set adds a condition, or puts it in the place of that of its type. It reports whether the old one said something else.
func set(s *batchv1.JobStatus, c batchv1.JobCondition) bool {
	switch old := conditionOf(s, c.Type); {
	case old == nil:
		s.Conditions = append(slices.Clip(s.Conditions), c)
	case old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message:
		return false
	default:
		*old = c
	}
	return true
}

func condition(kind batchv1.JobConditionType, status corev1.ConditionStatus, reason, message string, now time.Time) batchv1.JobCondition {
	return batchv1.JobCondition{
		Type: kind, Status: status, Reason: reason, Message: message,
		LastProbeTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}
}

// settle moves the UIDs of pods that have been freed from the list of uncounted ones into the counters. The lists are
// replaced, not changed.
func settle(s *batchv1.JobStatus, freed func(types.UID) bool) {
	var left batchv1.UncountedTerminatedPods
	if u := s.UncountedTerminatedPods; u != nil {
		left.Succeeded = waiting(u.Succeeded, freed)
		left.Failed = waiting(u.Failed, freed)
		s.Succeeded += int32(len(u.Succeeded) - len(left.Succeeded))
		s.Failed += int32(len(u.Failed) - len(left.Failed))
	}
	s.UncountedTerminatedPods = &left
}

func waiting(listed []types.UID, freed func(types.UID) bool) []types.UID {
	var out []types.UID
	for _, uid := range listed {
		if !freed(uid) {
			out = append(out, uid)
		}
	}
	return out
}

func uncounted(s *batchv1.JobStatus) int {
	if s.UncountedTerminatedPods == nil {
		return 0
	}
	return len(s.UncountedTerminatedPods.Succeeded) + len(s.UncountedTerminatedPods.Failed)
}

// finish adds the final condition if a decided ending has nothing left to wait for.
func finish(s *batchv1.JobStatus, e ending, now time.Time) bool {
	if !e.decided() || uncounted(s) > 0 || s.Active > 0 || deref(s.Terminating) > 0 {
		return false
	}
	if s.StartTime != nil && now.Before(s.StartTime.Time) {
		now = s.StartTime.Time // the clock was set back; the server takes no Job that ended before it began
	}
	s.Conditions = slices.Clone(s.Conditions)
	set(s, condition(e.kind, corev1.ConditionTrue, e.reason, e.message, now))
	if e.kind == batchv1.JobComplete {
		s.CompletionTime = &metav1.Time{Time: now}
	}
	return true
}

// sameStatus reports whether two statuses say the same.
func sameStatus(a, b *batchv1.JobStatus) bool {
	return a.Active == b.Active && a.Succeeded == b.Succeeded && a.Failed == b.Failed &&
		ptr.Equal(a.Ready, b.Ready) && ptr.Equal(a.Terminating, b.Terminating) &&
		a.CompletedIndexes == b.CompletedIndexes && ptr.Equal(a.FailedIndexes, b.FailedIndexes) &&
		a.StartTime.Equal(b.StartTime) && a.CompletionTime.Equal(b.CompletionTime) &&
		slices.Equal(a.Conditions, b.Conditions) && sameLists(a.UncountedTerminatedPods, b.UncountedTerminatedPods)
}

func sameLists(a, b *batchv1.UncountedTerminatedPods) bool {
	var none batchv1.UncountedTerminatedPods
	if a == nil {
		a = &none
	}
	if b == nil {
		b = &none
	}
	return slices.Equal(a.Succeeded, b.Succeeded) && slices.Equal(a.Failed, b.Failed)
}
