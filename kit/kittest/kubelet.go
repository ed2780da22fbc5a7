package kittest

import (
	"cmp"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kubelet plays the kubelets and the scheduler, for Play.World. Pods are given a node and run, and those that are deleted
// stop and are gone once no finalizer holds them. ends, if any, returns as what a running pod ends, or nothing.
func Kubelet(ends func(*corev1.Pod) corev1.PodPhase) func(t *testing.T, a *API) {
	return func(t *testing.T, a *API) {
		t.Helper()
		for _, pod := range List[corev1.Pod](t, a, "") {
			over := slices.Contains([]corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed}, pod.Status.Phase)
			switch {
			case pod.DeletionTimestamp != nil && len(pod.Finalizers) == 0:
				a.Remove(t, pod)
			case pod.DeletionTimestamp != nil && !over:
				a.end(t, pod, corev1.PodFailed)
			case pod.DeletionTimestamp != nil || over:
			case pod.Status.Phase != corev1.PodRunning:
				pod.Spec.NodeName = nodeFor(pod)
				pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: new(now()), Conditions: []corev1.PodCondition{
					{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now()},
				}}
				a.Update(t, pod)
			case ends != nil:
				if phase := ends(pod); phase != "" {
					a.end(t, pod, phase)
				}
			}
		}
	}
}

// nodeFor returns where a pod is to run: the node that it is pinned to, or any.
func nodeFor(pod *corev1.Pod) string {
	node := cmp.Or(pod.Spec.NodeName, "node")
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, f := range term.MatchFields {
				node = f.Values[0]
			}
		}
	}
	return node
}

// end has the containers of a pod end. One that is being deleted is gone once its finalizers are.
func (a *API) end(t *testing.T, pod *corev1.Pod, phase corev1.PodPhase) {
	t.Helper()
	pod.Status.Phase = phase
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: now()},
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(time.Now().Truncate(time.Second))},
	}}}
	a.Update(t, pod)
}
