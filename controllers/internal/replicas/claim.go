package replicas

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/claim"
	"orrery/controllers/internal/index"
	"orrery/controllers/internal/podctl"
)

// observed is the pods that an object has.
type observed struct {
	active      []*corev1.Pod // claimed; the slice is ours, the pods are shared
	terminating int           // number of owned and matching pods that are being deleted
	unreleased  error         // of pods that do not match and could not be released
}

// claim finds the pods of an object. It adopts those that match and nobody controls, and releases those that the object
// controls and that do not match. Finished pods and those being deleted stay as they are.
func (r *reconciler[T, P]) claim(ctx context.Context, set P, selector labels.Selector) (observed, error) {
	owned := index.PodsOf(r.pods, r.byOwner, set, r.kind.GVK.Kind)
	candidates, terminating := sift(owned, selector)
	for _, pod := range r.pods.By(r.orphans, set.GetNamespace()) {
		if podctl.Active(pod) && selector.Matches(labels.Set(pod.Labels)) {
			candidates = append(candidates, pod)
		}
	}
	claimer := claim.Claimer[*corev1.Pod]{
		Owner: set, Kind: r.kind.GVK, Selector: selector,
		Recheck: claim.Live[T, P](r.live, set), Patch: claim.Patches[corev1.Pod](r.client),
	}
	active, err := claimer.Claim(ctx, candidates)
	if err != nil {
		err = fmt.Errorf("claim pods for %s: %w", klog.KObj(set), err)
	}
	if !claim.OnlyReleases(err) {
		return observed{}, err
	}
	return observed{active: active, terminating: terminating, unreleased: err}, nil
}

// sift returns the active ones of an object's own pods, in the same slice, and counts those that match and are being
// deleted.
func sift(owned []*corev1.Pod, selector labels.Selector) (active []*corev1.Pod, terminating int) {
	active = owned[:0]
	for _, pod := range owned {
		switch {
		case podctl.Active(pod):
			active = append(active, pod)
		case podctl.Terminating(pod) && selector.Matches(labels.Set(pod.Labels)):
			terminating++
		}
	}
	return active, terminating
}
