package statefulset

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Whoever may create pods in a namespace can write any owner into them. One of another namespace is not what they get.
func TestAPodOfAnotherNamespaceHasNoOrdinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newSet("web", 1)
		set.UID = "web"
		foreign := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "other", Name: "web-0", Labels: set.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, setKind)},
		}}
		foreign.Status.Phase = corev1.PodFailed
		c := start(t, set, foreign)
		if c.pods() != "web-0" || c.set("web").Status.Replicas != 1 {
			t.Errorf("pods %q, status %+v", c.pods(), c.set("web").Status)
		}
		if !c.Get(t, foreign) || going(foreign) {
			t.Error("the foreign pod was deleted")
		}
	})
}
