package index

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/cache"
	"orrery/kit/client"
)

// ByController files objects under the UID of their controlling owner.
func ByController[P client.Object]() cache.Index[P] {
	return cache.Index[P]{Name: "controller", Keys: func(o P) []string {
		if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
			return []string{string(ref.UID)}
		}
		return nil
	}}
}

// Orphans files objects without a controlling owner under their namespace.
func Orphans[P client.Object]() cache.Index[P] {
	return cache.Index[P]{Name: "orphans", Keys: func(o P) []string {
		if metav1.GetControllerOfNoCopy(o) != nil {
			return nil
		}
		return []string{o.GetNamespace()}
	}}
}
