package replicas

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/internal/claim"
	"orrery/controllers/internal/index"
	"orrery/controllers/internal/podctl"
	"orrery/kit"
)

// wantingOrphan returns the keys of all objects that may adopt a pod which has just become an orphan that they match.
func (r *reconciler[T, P]) wantingOrphan(old, new *corev1.Pod) []kit.Key {
	if !claim.Orphaned(old, new) || podctl.Finished(new) || len(new.Labels) == 0 {
		return nil
	}
	var keys []kit.Key
	selector := func(set P) *metav1.LabelSelector { return r.kind.Spec(set).Selector }
	for _, set := range index.Matching(r.sets, r.bySelector, selector, new.Namespace, new.Labels) {
		keys = append(keys, kit.KeyOf(set))
	}
	if len(keys) > 1 {
		r.log.V(2).Info("More than one object selects a pod; the first to adopt it gets it",
			"pod", kit.KeyOf(new), "kind", r.kind.GVK.Kind, "objects", keys)
	}
	return keys
}
