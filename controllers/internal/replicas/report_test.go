package replicas

import (
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

// The watch of pods may be ahead of the one that tells that their owner has gone.
func TestThereIsNothingToReportOnWhatHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		r := &reconciler[appsv1.ReplicaSet, *appsv1.ReplicaSet]{client: api.Client("test"), kind: Kind[*appsv1.ReplicaSet]{
			Status: func(rs *appsv1.ReplicaSet) appsv1.ReplicaSetStatus { return rs.Status },
			WithStatus: func(rs *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) *appsv1.ReplicaSet {
				changed := *rs
				changed.Status = status
				return &changed
			},
		}}
		gone := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gone", UID: "1", ResourceVersion: "1"}}
		if err := r.report(t.Context(), gone, Spec{}, appsv1.ReplicaSetStatus{Replicas: 1}); err != nil {
			t.Error(err)
		}
	})
}
