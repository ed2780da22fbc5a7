package podctl

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Matters reports whether a change of a pod can change what its owner has to do or report: whether the pod counts, for
// which owner, and as what. It keeps the many other changes of a starting pod from costing a reconcile of its owner each.
// old is nil for a create, new for a delete.
func Matters(old, new *corev1.Pod) bool {
	if old == nil || new == nil || old.UID != new.UID {
		return true
	}
	return (old.DeletionTimestamp == nil) != (new.DeletionTimestamp == nil) ||
		Finished(old) != Finished(new) ||
		Ready(old) != Ready(new) ||
		!ReadySince(old).Equal(ReadySince(new)) ||
		!sameController(old, new) ||
		!maps.Equal(old.Labels, new.Labels)
}

// sameController reports whether two states of a pod name the same controller. PodsOf takes a pod by kind, name and UID.
func sameController(old, new *corev1.Pod) bool {
	was, is := metav1.GetControllerOfNoCopy(old), metav1.GetControllerOfNoCopy(new)
	if was == nil || is == nil {
		return was == is
	}
	return was.UID == is.UID && was.Kind == is.Kind && was.Name == is.Name
}

// ControllerOf returns the UID of an object's controlling owner, or "".
func ControllerOf(obj metav1.Object) types.UID {
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		return ref.UID
	}
	return ""
}
