package job

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/claim"
	"orrery/controllers/internal/index"
	"orrery/kit"
)

// claim returns the unsettled pods of a Job. It adopts pods that match and have no controller, and releases those that no
// longer match. complete is false if it has adopted some: the cache shows neither their owner nor their finalizer yet.
func (r *reconciler) claim(ctx context.Context, job *batchv1.Job) (pods []*corev1.Pod, complete bool, err error) {
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	if err != nil {
		return nil, false, kit.Terminal(fmt.Errorf("read selector of job %s: %w", klog.KObj(job), err))
	}
	candidates := index.Owned(r.pods, r.unsettled, job)
	for _, pod := range r.pods.By(r.orphans, job.Namespace) {
		if selector.Matches(labels.Set(pod.Labels)) {
			candidates = append(candidates, pod)
		}
	}
	claimer := claim.Claimer[*corev1.Pod]{
		Owner: job, Kind: jobKind, Selector: selector, Finalizers: []string{batchv1.JobTrackingFinalizer},
		Recheck: claim.Live(r.live, job), Patch: claim.Patches[corev1.Pod](r.client),
	}
	pods, err = claimer.Claim(ctx, candidates)
	if err != nil {
		return nil, false, fmt.Errorf("claim pods for job %s: %w", klog.KObj(job), err)
	}
	for _, pod := range pods {
		if !metav1.IsControlledBy(pod, job) {
			return nil, false, nil
		}
	}
	return pods, true, nil
}
