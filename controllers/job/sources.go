package job

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/internal/claim"
	"orrery/controllers/internal/index"
	"orrery/controllers/internal/podctl"
	"orrery/kit"
	"orrery/kit/cache"
)

// jobsBySelector files Jobs under a label that their selector requires, so that those that may want an orphan are found
// from its labels.
func jobsBySelector() cache.Index[*batchv1.Job] {
	return cache.Index[*batchv1.Job]{Name: "selector", Keys: func(job *batchv1.Job) []string {
		return index.SelectorKeys(job.Namespace, selectorOf(job))
	}}
}

func selectorOf(job *batchv1.Job) *metav1.LabelSelector { return job.Spec.Selector }

// urgent picks the changes of a Job that somebody has asked for.
func urgent(old, job *batchv1.Job) bool {
	return old == nil || job == nil || old.UID != job.UID || old.Generation != job.Generation ||
		(old.DeletionTimestamp == nil) != (job.DeletionTimestamp == nil)
}

// statusOnly picks the others, which mostly are this controller's own.
func statusOnly(old, job *batchv1.Job) bool { return !urgent(old, job) }

// matters reports whether a change of a pod can change what its Job has to do or say.
func matters(old, pod *corev1.Pod) bool {
	return podctl.Matters(old, pod) || restarts(old) != restarts(pod) || pod.Status.Phase == corev1.PodFailed && !sameMarks(old, pod) ||
		old.Annotations[batchv1.JobCompletionIndexAnnotation] != pod.Annotations[batchv1.JobCompletionIndexAnnotation] ||
		failuresBefore(old) != failuresBefore(pod)
}

// sameMarks reports whether a pod failure policy sees no difference between two versions of a pod.
func sameMarks(a, b *corev1.Pod) bool {
	return sameExits(a.Status.ContainerStatuses, b.Status.ContainerStatuses) &&
		sameExits(a.Status.InitContainerStatuses, b.Status.InitContainerStatuses) &&
		slices.EqualFunc(a.Status.Conditions, b.Status.Conditions, func(x, y corev1.PodCondition) bool {
			return x.Type == y.Type && x.Status == y.Status
		})
}

func sameExits(a, b []corev1.ContainerStatus) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.ContainerStatus) bool {
		return x.Name == y.Name && exitCode(&x) == exitCode(&y)
	})
}

// wantingOrphan returns the keys of all Jobs that may adopt a pod which has just become an orphan that they match.
func (r *reconciler) wantingOrphan(old, pod *corev1.Pod) []kit.Key {
	if !claim.Orphaned(old, pod) || len(pod.Labels) == 0 {
		return nil
	}
	var keys []kit.Key
	for _, job := range r.matching(pod) {
		keys = append(keys, kit.KeyOf(job))
	}
	if len(keys) > 1 {
		r.log.V(2).Info("More than one job selects a pod; the first to adopt it gets it", "pod", kit.KeyOf(pod), "jobs", keys)
	}
	return keys
}

// closed returns the keys of the Jobs of a namespace that has just been deleted, as far as they keep failed pods for their
// successors: there will be none, and nothing else in the namespace goes before its pods.
func (r *reconciler) closed(old, ns *corev1.Namespace) (keys []kit.Key) {
	if ns == nil || ns.DeletionTimestamp == nil || old != nil && old.DeletionTimestamp != nil {
		return nil
	}
	for _, job := range r.jobs.List(ns.Name) {
		if perIndex(job) && !finished(job) {
			keys = append(keys, kit.KeyOf(job))
		}
	}
	return keys
}

// matching returns the Jobs whose selectors match a pod.
func (r *reconciler) matching(pod *corev1.Pod) []*batchv1.Job {
	return index.Matching(r.jobs, r.bySelector, selectorOf, pod.Namespace, pod.Labels)
}
