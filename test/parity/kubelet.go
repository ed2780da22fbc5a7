package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// acts is the annotation of a pod that says what becomes of it.
const acts = "parity/acts"

// What becomes of a pod once it is bound to a node.
const (
	// runs, which is also the default, makes it run and be ready, and go when it is deleted.
	runs = "run"
	// stay leaves it as it is until a step changes its status; it goes when it is deleted.
	stay = "stay"
	// succeed and fail let it run, and end after a moment.
	succeed = "succeed"
	fail    = "fail"
	// hang makes it run and be ready, and not go when it is deleted. A claim can hang, too.
	hang = "hang"
)

// kubelet plays the kubelets of all nodes until the context ends.
func (w *world) kubelet(ctx context.Context) {
	var beat time.Time
	for ctx.Err() == nil {
		if time.Since(beat) > 5*time.Second {
			beat = time.Now()
			w.heartbeat(ctx)
		}
		for _, obj := range w.stores["pods"].List() {
			w.play(ctx, obj.(*unstructured.Unstructured))
		}
		for _, obj := range w.stores["persistentvolumeclaims"].List() {
			w.letGo(ctx, obj.(*unstructured.Unstructured))
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// heartbeat renews the leases and the status of all nodes but those that are annotated as silent.
func (w *world) heartbeat(ctx context.Context) {
	list, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range list.Items {
		if list.Items[i].Annotations[acts] != stay {
			w.beat(ctx, &list.Items[i])
		}
	}
}

// play does what a pod's kubelet would do next. A failed request is sent again in the next round.
func (w *world) play(ctx context.Context, u *unstructured.Unstructured) {
	acts := u.GetAnnotations()[acts]
	node, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	if node == "" {
		return
	}
	ended := phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed)
	deleted := u.GetDeletionTimestamp() != nil
	if deleted && acts == hang && !w.isEnding(u.GetNamespace()) || ended && !deleted || acts == stay && !deleted {
		return
	}
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &pod); err != nil {
		return
	}
	s := &subject{world: w, namespace: pod.Namespace}
	if deleted {
		s.remove(ctx, &pod, ended)
		return
	}
	switch {
	case phase == string(corev1.PodPending):
		_ = s.report(ctx, &pod, ready)
	case acts == succeed:
		_ = s.report(ctx, &pod, succeeded)
	case acts == fail:
		_ = s.report(ctx, &pod, failed(1))
	}
}

// letGo removes all finalizers from a claim that is being deleted, unless it hangs. The server gives every claim the finalizer
// of a controller that Orrery does not have.
func (w *world) letGo(ctx context.Context, u *unstructured.Unstructured) {
	if u.GetDeletionTimestamp() == nil || len(u.GetFinalizers()) == 0 || u.GetAnnotations()[acts] == hang && !w.isEnding(u.GetNamespace()) {
		return
	}
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"finalizers":null}}`, u.GetUID())
	_, _ = w.client.CoreV1().PersistentVolumeClaims(u.GetNamespace()).Patch(ctx, u.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
}

// remove ends a deleted pod. If a finalizer still keeps it, its containers have been killed all the same.
func (s *subject) remove(ctx context.Context, pod *corev1.Pod, ended bool) {
	zero := int64(0)
	if grace := pod.DeletionGracePeriodSeconds; grace != nil && *grace == 0 {
		if !ended {
			_ = s.report(ctx, pod, failed(137))
		}
		return
	}
	_ = s.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
}

// setReady sets the condition Ready, and the times that go with it.
func setReady(pod *corev1.Pod, status corev1.ConditionStatus, reason string) {
	now := metav1.Now()
	var others []corev1.PodCondition
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodReady && c.Type != corev1.ContainersReady {
			others = append(others, c)
		}
	}
	for _, name := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		others = append(others, corev1.PodCondition{Type: name, Status: status, Reason: reason, LastTransitionTime: now})
	}
	pod.Status.Conditions = others
}

// ready makes a pod run and be ready.
func ready(pod *corev1.Pod) {
	running(pod)
	setReady(pod, corev1.ConditionTrue, "")
	for i := range pod.Status.ContainerStatuses {
		pod.Status.ContainerStatuses[i].Ready = true
	}
}

// readySinceNoTime makes a pod run and be ready, with conditions that do not say since when.
func readySinceNoTime(pod *corev1.Pod) {
	ready(pod)
	for i := range pod.Status.Conditions {
		pod.Status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
}

// running makes a pod run without being ready.
func running(pod *corev1.Pod) {
	now := metav1.Now()
	pod.Status.Phase = corev1.PodRunning
	setAddresses(pod)
	if pod.Status.StartTime == nil {
		pod.Status.StartTime = &now
	}
	setReady(pod, corev1.ConditionFalse, "ContainersNotReady")
	pod.Status.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
}

func succeeded(pod *corev1.Pod) { ended(pod, corev1.PodSucceeded, 0) }

func failed(code int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { ended(pod, corev1.PodFailed, code) }
}

// ended lets all containers of a pod end with a code.
func ended(pod *corev1.Pod, phase corev1.PodPhase, code int32) {
	running(pod)
	now := metav1.Now()
	pod.Status.Phase = phase
	setReady(pod, corev1.ConditionFalse, map[bool]string{true: "PodCompleted", false: "PodFailed"}[code == 0])
	for i := range pod.Status.ContainerStatuses {
		pod.Status.ContainerStatuses[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: now, StartedAt: now}}
	}
}
