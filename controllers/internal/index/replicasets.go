package index

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/cache"
)

// ReplicaSetsByController files ReplicaSets under the UID of their controlling owner.
func ReplicaSetsByController() cache.Index[*appsv1.ReplicaSet] {
	return cache.Index[*appsv1.ReplicaSet]{Name: "controller", Keys: func(rs *appsv1.ReplicaSet) []string {
		if ref := metav1.GetControllerOfNoCopy(rs); ref != nil {
			return []string{string(ref.UID)}
		}
		return nil
	}}
}

// OrphanReplicaSets files ReplicaSets without a controlling owner under their namespace.
func OrphanReplicaSets() cache.Index[*appsv1.ReplicaSet] {
	return cache.Index[*appsv1.ReplicaSet]{Name: "orphans", Keys: func(rs *appsv1.ReplicaSet) []string {
		if metav1.GetControllerOfNoCopy(rs) != nil {
			return nil
		}
		return []string{rs.Namespace}
	}}
}
