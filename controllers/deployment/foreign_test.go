package deployment

import (
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

// Anyone who may create ReplicaSets in a namespace can give them any owner. A Deployment of another namespace must neither
// use nor resize them.
func TestASetOfAnotherNamespaceIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeployment("web", 2)
		d.UID = "web"
		foreign := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "other", Name: "foreign", Labels: d.Spec.Template.Labels,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, ownerKind)},
			},
			Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(5)), Selector: d.Spec.Selector, Template: d.Spec.Template},
		}
		api := start(t, d, foreign)
		if n := len(kittest.List[appsv1.ReplicaSet](t, api, "default")); n != 1 {
			t.Errorf("%d ReplicaSets, want the Deployment's own", n)
		}
		if !api.Get(t, foreign) || *foreign.Spec.Replicas != 5 || len(foreign.Annotations) > 0 {
			t.Errorf("the foreign ReplicaSet became %+v", foreign)
		}
		if api.Get(t, d); d.Status.Replicas != 2 {
			t.Errorf("status %+v, want 2 replicas", d.Status)
		}
	})
}
