package nodelifecycle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, a node that is not ready has its taints and its
// pods are marked, and so it is, in the end, with nodes that fall silent.
func TestFaultsAtEachWrite(t *testing.T) {
	kittest.InjectFaults(t, kittest.FaultTest{
		Run: []any{Descriptor()}, Rest: 3 * time.Minute,
		Given: func(t *testing.T, api *kittest.API) {
			for _, name := range []string{"a", "b", "c"} {
				api.Create(t, node(name, "zone", corev1.ConditionTrue))
				api.Create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "on-" + name},
					Spec:   corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
					Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}})
			}
			n := node("a", "", "")
			api.Get(t, n)
			n.Status.Conditions[0].Status = corev1.ConditionFalse
			api.Update(t, n)
		},
	})
}
