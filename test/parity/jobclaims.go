package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// jobClaimProgram runs a Job whose selector the user has chosen among pods that the user makes, edits and deletes.
func jobClaimProgram(r *rand.Rand) program {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: batchv1.JobSpec{
		Parallelism: new(int32(1 + r.IntN(3))), Completions: pick(r, nil, new(int32(2)), new(int32(4))), BackoffLimit: new(int32(r.IntN(3))),
		ManualSelector: new(true), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "j"}},
		Template: template("j", pick(r, stay, stay, runs, hang)),
	}}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if chance(r, 3) && job.Spec.Completions != nil {
		job.Spec.CompletionMode = new(batchv1.IndexedCompletion)
	}
	if chance(r, 4) {
		job.Spec.PodReplacementPolicy = new(batchv1.Failed)
	}
	if chance(r, 6) {
		job.Spec.Suspend = new(true)
	}
	if chance(r, 10) {
		job.Spec.ManagedBy = new("example.com/other")
	}
	d := &jobDraft{Job: job, r: r}
	if chance(r, 3) {
		d.barePod(0)
	}
	if chance(r, 4) {
		d.obstacle()
	}
	d.add(created("jobs", job))
	for n := range 3 + r.IntN(3) {
		jobClaimStep(d, n+1)
	}
	d.delete()
	if chance(r, 3) {
		// The orphans have a Job again.
		d.add(created("jobs", job))
	}
	d.add(unhung(), stripped(), deleted("jobs", "j", metav1.DeletePropagationBackground), stripped())
	return program{steps: d.steps}
}

func jobClaimStep(d *jobDraft, n int) {
	r := d.r
	switch r.IntN(12) {
	case 0:
		d.barePod(n)
	case 1:
		d.add(patchedPods(livePods(0, 1+r.IntN(2)), `{"metadata":{"labels":{"app":%q}}}`, pick(r, "other", "")))
	case 2:
		d.add(patchedPods(which{"ended", over, 0, 1}, `{"metadata":{"labels":{"app":"other"}}}`))
	case 3:
		d.add(patchedPods(which{"foreign", func(pod *corev1.Pod) bool { return pod.Labels["app"] != "j" }, 0, 2}, `{"metadata":{"labels":{"app":"j"}}}`))
	case 4:
		// Orrery gives a pod that it has lost the finalizer of Jobs again: README, Jobs.
		d.add(patchedPods(livePods(0, 1), `{"metadata":{"finalizers":%s}}`, pick(r, `["batch.kubernetes.io/job-tracking"]`, `["batch.kubernetes.io/job-tracking","example.com/hold"]`)))
	case 5:
		if !d.rivals { // the first to adopt it gets it
			d.add(patchedPods(livePods(0, 1), `{"metadata":{"ownerReferences":null}}`))
		}
	case 6:
		d.add(patchedPods(livePods(0, 1), `{"metadata":{"annotations":{"batch.kubernetes.io/job-completion-index":%s}}}`, pick(r, "null", `"0"`, `"9"`, `"-1"`, `"x"`, `"00"`)))
	case 7:
		d.add(podsReport(livePods(0, 1), "succeed", endsWith(corev1.PodSucceeded, 0)))
	case 8:
		d.fail()
	case 9:
		d.remove()
	case 10:
		d.turn()
	case 11:
		d.rival()
	}
}

// patchedPods is the step in which a user patches pods.
func patchedPods(w which, format string, args ...any) step {
	patch := fmt.Sprintf(format, args...)
	return forEach(w, "are patched with "+patch, func(ctx context.Context, s *subject, pod *corev1.Pod) error {
		return s.patch(ctx, "pods", pod.Name, patch)
	})
}

// barePod makes a pod that the Job's selector may match.
func (d *jobDraft) barePod(n int) {
	r := d.r
	t := template("j", stay) // what else it did would race with the Job
	pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	pod.Name = fmt.Sprintf("bare-%d", n)
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Finalizers = pick(r, nil, nil, []string{batchv1.JobTrackingFinalizer}, []string{"example.com/hold"})
	if chance(r, 3) {
		pod.Annotations[batchv1.JobCompletionIndexAnnotation] = pick(r, "0", "1", "7")
	}
	// Nor as by a Job that does not control it: upstream counts a pod that named the Job so, is adopted and is one too
	// many as failed: README, Jobs.
	kind := r.IntN(3)
	d.add(step{text: fmt.Sprintf("create pod %s like %v, owned as by %d", pod.Name, pod.ObjectMeta, kind), do: func(ctx context.Context, s *subject) error {
		own := pod.DeepCopy()
		own.OwnerReferences = s.owners(ctx, kind)
		return s.create(ctx, "pods", own)
	}})
}

// owners returns owner references: to the Job as controller, to something else as controller, or none.
func (s *subject) owners(ctx context.Context, kind int) []metav1.OwnerReference {
	switch kind {
	case 0:
		job, err := s.client.BatchV1().Jobs(s.namespace).Get(ctx, "j", metav1.GetOptions{})
		if err != nil {
			return nil
		}
		return []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	case 1:
		owner, err := s.client.CoreV1().ServiceAccounts(s.namespace).Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			return nil
		}
		return []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ServiceAccount"))}
	}
	return nil
}

// obstacle makes the server refuse pods.
func (d *jobDraft) obstacle() {
	if chance(d.r, 2) {
		d.Spec.Template.Spec.ServiceAccountName = "none"
		return
	}
	// No controller of quota runs here, so its status is set by hand. The server counts up, and never down.
	hard := corev1.ResourceList{corev1.ResourcePods: resource.MustParse(fmt.Sprint(d.r.IntN(3)))}
	d.add(created("resourcequotas", &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}))
	pods := hard[corev1.ResourcePods]
	d.add(patchedStatus("resourcequotas", "few", `{"status":{"hard":{"pods":%q},"used":{"pods":"0"}}}`, pods.String()))
}

// rival creates a second Job with the same selector.
func (d *jobDraft) rival() {
	rival := d.DeepCopy()
	rival.Name = "rival"
	rival.Spec.Suspend = nil
	if chance(d.r, 2) {
		rival.Spec.Parallelism = new(int32(0))
	}
	d.rivals = true
	d.add(created("jobs", rival))
}
