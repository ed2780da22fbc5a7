package replicas

import (
	"fmt"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit"
	"orrery/kit/kittest"
)

// A look at a large set that is as it should be happens for each change of one of its pods. It must not cost more
// allocations than one at a small set: the lists of the pods, and nothing per pod.
func TestALookAtALargeSetAllocatesNothingPerPod(t *testing.T) {
	small, large := allocations(t, 10), allocations(t, 3000)
	if large > small+20 || large > 100 {
		t.Errorf("%v allocations for 10 pods, %v for 3000", small, large)
	}
}

func allocations(t *testing.T, n int) (perLook float64) {
	synctest.Test(t, func(t *testing.T) {
		gvk := appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
		rs := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: appsv1.ReplicaSetSpec{
				Replicas: new(int32(n)), Selector: webSpec(0, 0).Selector, Template: *webSpec(0, 0).Template,
			},
		}
		api := kittest.New(t, rs)
		for i := range n {
			p := pod(web, readyFor(0))
			p.Namespace, p.Name = "default", fmt.Sprintf("p-%d", i)
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rs, gvk)}
			api.Create(t, p)
		}
		var r *reconciler[appsv1.ReplicaSet, *appsv1.ReplicaSet]
		api.Run(t, func(cc kit.ControllerContext) (bool, error) {
			r = newReconciler[appsv1.ReplicaSet](cc, setsOfTest(gvk))
			return true, r.complete(cc, "replicaset", 1)
		})
		api.Settle()
		set, ok := r.sets.Get(kit.KeyOf(rs))
		if !ok || int(set.Status.ReadyReplicas) != n {
			t.Fatalf("the set is not settled: %+v", set)
		}
		api.TakeWrites()
		perLook = testing.AllocsPerRun(5, func() {
			if _, err := r.Reconcile(t.Context(), set); err != nil {
				t.Error(err)
			}
		})
		api.Expect(t)
	})
	return perLook
}

func setsOfTest(gvk schema.GroupVersionKind) Kind[*appsv1.ReplicaSet] {
	return Kind[*appsv1.ReplicaSet]{
		GVK: gvk,
		Spec: func(rs *appsv1.ReplicaSet) Spec {
			return Spec{Replicas: *rs.Spec.Replicas, Selector: rs.Spec.Selector, Template: &rs.Spec.Template}
		},
		Status: func(rs *appsv1.ReplicaSet) appsv1.ReplicaSetStatus { return rs.Status },
		WithStatus: func(rs *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) *appsv1.ReplicaSet {
			next := *rs
			next.Status = status
			return &next
		},
	}
}
