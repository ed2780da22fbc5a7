package index

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/cache"
)

// UnsettledPodsByJob indexes the pods of Jobs by the UID of their Job, as long as they have not finished or still have the
// tracking finalizer, which means that the Job has yet to count them. Even a Job with thousands of completions has only few
// such pods at a time.
func UnsettledPodsByJob() cache.Index[*corev1.Pod] {
	return cache.Index[*corev1.Pod]{Name: "unsettled", Keys: func(p *corev1.Pod) []string {
		ref := metav1.GetControllerOfNoCopy(p)
		if ref == nil || ref.Kind != "Job" || settled(p) {
			return nil
		}
		return []string{string(ref.UID)}
	}}
}

func settled(p *corev1.Pod) bool {
	finished := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	return finished && !slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer)
}
