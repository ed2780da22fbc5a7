package job

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"orrery/controllers/internal/podctl"
)

// Predicates and getters of a Job or a pod, for all steps.

func indexed(job *batchv1.Job) bool {
	return job.Spec.CompletionMode != nil && *job.Spec.CompletionMode == batchv1.IndexedCompletion
}

// knownMode reports whether the completion mode is one that this version can run.
func knownMode(job *batchv1.Job) bool {
	return job.Spec.CompletionMode == nil || *job.Spec.CompletionMode == batchv1.NonIndexedCompletion || indexed(job)
}

// mode returns the completion mode as metrics have it.
func mode(job *batchv1.Job) string {
	if indexed(job) {
		return string(batchv1.IndexedCompletion)
	}
	return string(batchv1.NonIndexedCompletion)
}

// perIndex reports whether each index has a back-off limit of its own.
func perIndex(job *batchv1.Job) bool { return job.Spec.BackoffLimitPerIndex != nil && indexed(job) }

func suspended(job *batchv1.Job) bool { return deref(job.Spec.Suspend) }

// replacesFailedOnly reports whether a pod is replaced, and counted, only once it has ended. Otherwise a pod that is
// being deleted is a failure at once.
func replacesFailedOnly(job *batchv1.Job) bool {
	return deref(job.Spec.PodReplacementPolicy) == batchv1.Failed
}

// externalManager names the controller that looks after the Job in place of this one; "" if none does.
func externalManager(job *batchv1.Job) string {
	if by := deref(job.Spec.ManagedBy); by != batchv1.JobControllerName {
		return by
	}
	return ""
}

// finished reports whether the Job is over and counted.
func finished(job *batchv1.Job) bool {
	return isTrue(job, batchv1.JobComplete) != nil || isTrue(job, batchv1.JobFailed) != nil
}

// isTrue returns the condition of a type if it is true, else nil. It points into the Job: read-only.
func isTrue(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	if c := conditionOf(&job.Status, kind); c != nil && c.Status == corev1.ConditionTrue {
		return c
	}
	return nil
}

// tracked reports whether a pod carries the finalizer that keeps it until it is counted.
func tracked(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

// awaitsCount reports whether a pod has finished and is not counted yet. Nil does not.
func awaitsCount(pod *corev1.Pod) bool { return pod != nil && podctl.Finished(pod) && tracked(pod) }

// deref returns what p points to, or the zero value.
func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
