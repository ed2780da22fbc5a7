package claim

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/client"
)

// Orphaned reports whether a change of an object is a reason to look for owners that may adopt it: it has no controller,
// is not being deleted, and was created, lost its controller or changed its labels. old is nil for a create, new for a
// delete.
func Orphaned[P interface {
	comparable
	client.Object
}](old, new P) bool {
	var none P
	if new == none || new.GetDeletionTimestamp() != nil || metav1.GetControllerOfNoCopy(new) != nil {
		return false
	}
	return old == none || old.GetUID() != new.GetUID() || metav1.GetControllerOfNoCopy(old) != nil ||
		!maps.Equal(old.GetLabels(), new.GetLabels())
}
