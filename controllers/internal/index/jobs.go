package index

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/cache"
)

// JobsByController files Jobs under the UID of their controlling owner.
func JobsByController() cache.Index[*batchv1.Job] {
	return cache.Index[*batchv1.Job]{Name: "controller", Keys: func(j *batchv1.Job) []string {
		if ref := metav1.GetControllerOfNoCopy(j); ref != nil {
			return []string{string(ref.UID)}
		}
		return nil
	}}
}
