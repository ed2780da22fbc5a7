package podctl

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Condition returns the pod's condition of a type, or nil if it has none. It points into the pod: read-only.
func Condition(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == t {
			return c
		}
	}
	return nil
}

// Ready reports whether the pod's Ready condition is true.
func Ready(pod *corev1.Pod) bool {
	c := Condition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// Available reports whether the pod is ready and has been so for minReadySeconds at the time now. A pod that does not
// say since when it is ready is available only if no time is asked for.
func Available(pod *corev1.Pod, minReadySeconds int32, now time.Time) bool {
	if !Ready(pod) {
		return false
	}
	if minReadySeconds == 0 {
		return true
	}
	at, known := availableAt(pod, minReadySeconds)
	return known && !at.After(now)
}

// AvailableIn returns how long a pod that is ready but not yet available has to wait at the time now; ok is false for
// all other pods.
func AvailableIn(pod *corev1.Pod, minReadySeconds int32, now time.Time) (wait time.Duration, ok bool) {
	if minReadySeconds <= 0 || !Ready(pod) {
		return 0, false
	}
	at, known := availableAt(pod, minReadySeconds)
	if !known || !at.After(now) {
		return 0, false
	}
	return at.Sub(now), true
}

// NextAvailable returns the time until the first of the pods becomes available that is ready but not yet available at
// the time now; ok is false if there is none.
func NextAvailable(pods []*corev1.Pod, minReadySeconds int32, now time.Time) (wait time.Duration, ok bool) {
	if minReadySeconds <= 0 {
		return 0, false
	}
	for _, pod := range pods {
		if d, waits := AvailableIn(pod, minReadySeconds, now); waits && (!ok || d < wait) {
			wait, ok = d, true
		}
	}
	return wait, ok
}

// availableAt returns when a ready pod becomes available; known is false if it does not say since when it is ready.
func availableAt(pod *corev1.Pod, minReadySeconds int32) (at time.Time, known bool) {
	since := ReadySince(pod)
	return since.Add(time.Duration(minReadySeconds) * time.Second), !since.IsZero()
}

// ReadySince returns when the pod became ready; zero if it is not ready or does not say.
func ReadySince(pod *corev1.Pod) time.Time {
	if c := Condition(pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// Finished reports whether all containers have stopped for good.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Active reports whether the pod is neither finished nor being deleted.
func Active(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !Finished(pod) }

// Terminating reports whether the pod is being deleted and has not finished.
func Terminating(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil && !Finished(pod) }
