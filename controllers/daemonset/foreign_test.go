package daemonset

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Anyone who may create pods in a namespace can give them any owner. An owner in another namespace must ignore them.
func TestAPodOfAnotherNamespaceTakesNoNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newSet("agent")
		set.UID = "agent"
		foreign := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "other", Name: "foreign", Labels: set.Spec.Template.Labels,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, kind)},
			},
			Spec: corev1.PodSpec{NodeName: "n1"},
		}
		api := start(t, set, newNode("n1"), foreign)
		if n := count(api.TakeWrites(), "create v1/pods default/"); n != 1 {
			t.Errorf("%d pods were created, want 1", n)
		}
		changePod(t, api, foreign, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		api.Settle()
		if writes := api.TakeWrites(); len(writes) > 0 {
			t.Errorf("the foreign pod that failed caused %v", writes)
		}
	})
}
