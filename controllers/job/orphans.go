package job

import (
	"context"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/claim"
	"orrery/controllers/internal/podctl"
	"orrery/kit"
	"orrery/kit/client"
)

// stray names what the second loop looks at: one pod, or what is left of the pods of one Job that is over or gone.
type stray struct {
	pod kit.Key
	job types.UID
}

// String names it in the log.
func (s stray) String() string {
	if s.job != "" {
		return "pods of job " + string(s.job)
	}
	return s.pod.String()
}

// strayed returns the pod if no Job will free it: it has no Job, or is being deleted while its Job is over or gone. A
// counted pod whose labels have changed is one too, as its Job may have to release it.
func (r *reconciler) strayed(old, pod *corev1.Pod) []stray {
	r.metrics.podChanged(old, pod)
	if pod == nil {
		return nil
	}
	owner := podctl.ControllerOf(pod)
	switch {
	case tracked(pod) && (owner == "" || pod.DeletionTimestamp != nil && r.abandoned(pod)):
	case owner != "" && old != nil && podctl.Finished(pod) && !maps.Equal(old.Labels, pod.Labels):
	default:
		return nil
	}
	return []stray{{pod: kit.KeyOf(pod)}}
}

// leaving returns a Job that is over.
func leaving(_, job *batchv1.Job) []stray {
	if job == nil || !finished(job) {
		return nil
	}
	return []stray{{job: job.UID}}
}

// gone returns a Job that has been deleted. If one of the same name was created while the watch was broken, a list shows
// both in one change.
func gone(old, job *batchv1.Job) []stray {
	if old == nil || job != nil && job.UID == old.UID {
		return nil
	}
	return []stray{{job: old.UID}}
}

// reconcileStray frees pods that no Job will count.
func (r *reconciler) reconcileStray(ctx context.Context, s stray) (kit.Result, error) {
	if s.job != "" {
		left := r.pods.By(r.unsettled, string(s.job))
		return kit.Done, eachPod(ctx, left, func(ctx context.Context, i int) error { return r.release(ctx, left[i]) })
	}
	if pod, ok := r.pods.Get(s.pod); ok {
		return kit.Done, r.release(ctx, pod)
	}
	return kit.Done, nil
}

// release removes the finalizer from a pod that its Job does not need any more, and the owner reference from one that has
// been counted and no longer matches. Pods of Jobs that another controller manages are left to that controller.
func (r *reconciler) release(ctx context.Context, pod *corev1.Pod) error {
	if r.abandoned(pod) {
		// A Job may adopt the pod meanwhile and need the finalizer, so the pod must not have changed.
		return r.untrack(ctx, pod, pod.ResourceVersion)
	}
	job := r.jobOf(pod)
	if job == nil || finished(job) || externalManager(job) != "" || job.DeletionTimestamp != nil || tracked(pod) || !podctl.Finished(pod) {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	if err != nil || selector.Matches(labels.Set(pod.Labels)) {
		return nil //nolint:nilerr // the main loop tells of the selector
	}
	klog.FromContext(ctx).V(2).Info("Releasing a counted pod that the job's selector no longer matches", "pod", klog.KObj(pod), "job", klog.KObj(job))
	_, err = client.PatchObject(ctx, r.client, pod, claim.Release(pod.UID, job.UID), client.Brief)
	return client.IgnoreNotFound(err)
}

// abandoned reports whether a pod has no controller and will get none, or one that is a Job which is over or gone.
func (r *reconciler) abandoned(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return !slices.ContainsFunc(r.matching(pod), func(job *batchv1.Job) bool { return adopts(job, pod) })
	}
	if ref.Kind != jobKind.Kind || ref.APIVersion != jobKind.GroupVersion().String() {
		return false
	}
	job := r.jobOf(pod)
	return job == nil || externalManager(job) == "" && finished(job)
}

// adopts reports whether a Job that selects an orphan will take it.
func adopts(job *batchv1.Job, pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && job.DeletionTimestamp == nil && !finished(job) && externalManager(job) == ""
}

// jobOf returns the Job that controls a pod, or nil.
func (r *reconciler) jobOf(pod *corev1.Pod) *batchv1.Job {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != jobKind.Kind {
		return nil
	}
	job, ok := r.jobs.Get(kit.Key{Namespace: pod.Namespace, Name: ref.Name})
	if !ok || job.UID != ref.UID {
		return nil
	}
	return job
}
