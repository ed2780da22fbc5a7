package index

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/cache"
)

// RevisionsByController files ControllerRevisions under the UID of their controlling owner.
func RevisionsByController() cache.Index[*appsv1.ControllerRevision] {
	return cache.Index[*appsv1.ControllerRevision]{Name: "controller", Keys: func(r *appsv1.ControllerRevision) []string {
		if ref := metav1.GetControllerOfNoCopy(r); ref != nil {
			return []string{string(ref.UID)}
		}
		return nil
	}}
}

// OrphanRevisions files ControllerRevisions without a controlling owner under their namespace.
func OrphanRevisions() cache.Index[*appsv1.ControllerRevision] {
	return cache.Index[*appsv1.ControllerRevision]{Name: "orphans", Keys: func(r *appsv1.ControllerRevision) []string {
		if metav1.GetControllerOfNoCopy(r) != nil {
			return nil
		}
		return []string{r.Namespace}
	}}
}
