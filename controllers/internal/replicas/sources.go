package replicas

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/controllers/internal/index"
	"orrery/controllers/internal/podctl"
	"orrery/kit"
)

// matters reports whether a change of a pod can change what its owner has to do or say: whether the pod counts, for
// whom, and as what. It keeps the many other changes of a starting pod from costing a look at all its siblings.
func matters(old, new *corev1.Pod) bool {
	if old == nil || new == nil || old.UID != new.UID {
		return true
	}
	return (old.DeletionTimestamp == nil) != (new.DeletionTimestamp == nil) ||
		podctl.Finished(old) != podctl.Finished(new) ||
		podctl.Ready(old) != podctl.Ready(new) ||
		!podctl.ReadySince(old).Equal(podctl.ReadySince(new)) ||
		controllerOf(old) != controllerOf(new) ||
		!maps.Equal(old.Labels, new.Labels)
}

// wantingOrphan returns the keys of all objects that may adopt a pod which has just become an orphan that they match.
func (r *reconciler[T, P]) wantingOrphan(old, new *corev1.Pod) []kit.Key {
	if new == nil || !podctl.Active(new) || controllerOf(new) != "" || len(new.Labels) == 0 {
		return nil
	}
	if old != nil && old.UID == new.UID && controllerOf(old) == "" && maps.Equal(old.Labels, new.Labels) {
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

// controllerOf returns the UID of the pod's controlling owner, or "".
func controllerOf(pod *corev1.Pod) types.UID {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		return ref.UID
	}
	return ""
}
