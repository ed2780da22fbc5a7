package kittest

import (
	"cmp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/client"
)

// podStep is what a kubelet does with a pod next.
type podStep int

const (
	leavePod  podStep = iota
	storePod          // as changed
	removePod         // it has stopped
)

// Kubelet plays the kubelets and the scheduler, for FaultTest.World. Pods are given a node and run; deleted pods stop, and are
// removed once they have no finalizers. If ends is not nil, it returns the phase in which a running pod ends, or "" if the
// pod goes on.
func Kubelet(ends func(*corev1.Pod) corev1.PodPhase) func(t *testing.T, a *API) {
	return func(t *testing.T, a *API) {
		t.Helper()
		for _, pod := range List[corev1.Pod](t, a, "") {
			a.asKubelet(t, pod, ends)
		}
	}
}

// asKubelet does to one pod what its kubelet would do next. It reads the pod again and holds the lock until it has stored
// it: a controller may write to the pod in response to what was done to another.
func (a *API) asKubelet(t *testing.T, pod *corev1.Pod, ends func(*corev1.Pod) corev1.PodPhase) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	w, o := a.begin(t, pod)
	key := client.KeyOf(o)
	current, err := w.current(key)
	if err != nil {
		return // it is gone
	}
	a.finish(t, "get", pod, current, nil)
	switch nextStep(pod, ends) {
	case removePod:
		w.remove(key)
	case storePod:
		_, o = a.begin(t, pod)
		stored, err := w.update(o, "")
		a.finish(t, "update", pod, stored, err)
	}
}

// nextStep changes a pod as its kubelet would, and returns what is to be done with it.
func nextStep(pod *corev1.Pod, ends func(*corev1.Pod) corev1.PodPhase) podStep {
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case pod.DeletionTimestamp != nil && len(pod.Finalizers) == 0:
		return removePod
	case pod.DeletionTimestamp != nil && !over:
		end(pod, corev1.PodFailed)
		return storePod
	case over:
		return leavePod
	case pod.Status.Phase != corev1.PodRunning:
		pod.Spec.NodeName = nodeFor(pod)
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: new(now()), Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now()},
		}}
		return storePod
	case ends != nil:
		if phase := ends(pod); phase != "" {
			end(pod, phase)
			return storePod
		}
	}
	return leavePod
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

// end terminates the containers of a pod.
func end(pod *corev1.Pod, phase corev1.PodPhase) {
	pod.Status.Phase = phase
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: now()},
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(time.Now().Truncate(time.Second))},
	}}}
}
