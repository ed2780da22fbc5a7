package job

import (
	"testing"
	"testing/synctest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Whoever may create pods in a namespace can write any owner into them. One of another namespace is not what they get.
func TestAPodOfAnotherNamespaceCompletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := newJob("sum")
		job.UID = "sum"
		foreign := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "other", Name: "foreign", Labels: job.Spec.Template.Labels,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, jobKind)},
				Finalizers:      []string{batchv1.JobTrackingFinalizer},
			},
			Status: corev1.PodStatus{Phase: corev1.PodSucceeded},
		}
		api := start(t, job, foreign)
		if api.Get(t, job); job.Status.Succeeded != 0 || job.Status.Active != 1 || finished(job) {
			t.Errorf("status %+v, want one active pod", job.Status)
		}
	})
}
