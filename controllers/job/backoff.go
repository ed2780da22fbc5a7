package job

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"orrery/controllers/internal/podctl"
)

const (
	firstDelay = 10 * time.Second // after one failure; it doubles with each further one
	maxDelay   = 10 * time.Minute
)

// history is what the delay before the next pod depends on: the failures since a pod of the Job last succeeded.
type history struct {
	failures int32
	last     time.Time // when the last of them ended
}

// with returns the history after more pods have finished. A success cancels the failures before it.
func (h history) with(succeeded, failed []*corev1.Pod) history {
	success := latest(succeeded)
	if len(succeeded) > 0 {
		h = history{}
	}
	for _, pod := range failed {
		at := finishTime(pod)
		if len(succeeded) > 0 && !at.After(success) {
			continue
		}
		h.failures++
		if h.failures == 1 || at.After(h.last) {
			h.last = at
		}
	}
	return h
}

func latest(pods []*corev1.Pod) (at time.Time) {
	for _, pod := range pods {
		if t := finishTime(pod); t.After(at) {
			at = t
		}
	}
	return at
}

// wait returns how long the next pod has to wait at the time now.
func (h history) wait(now time.Time) time.Duration {
	if h.failures <= 0 {
		return 0
	}
	delay := firstDelay
	for n := int32(1); n < h.failures && delay < maxDelay; n++ {
		delay = min(2*delay, maxDelay)
	}
	// A node whose clock is ahead must not prolong the wait.
	return min(max(0, delay-now.Sub(h.last)), delay)
}

// finishTime returns when a pod ended, which is no earlier than its creation: the clock of a node may be behind, and its
// pods would be replaced without a delay.
func finishTime(pod *corev1.Pod) time.Time {
	if at := reportedEnd(pod); at.After(pod.CreationTimestamp.Time) {
		return at
	}
	return pod.CreationTimestamp.Time
}

// reportedEnd returns when the last container of a pod ended or, if that is not known, when the pod ceased to be ready or
// was asked to terminate; it is zero if none of that is known.
func reportedEnd(pod *corev1.Pod) time.Time {
	if at, ok := containersEnd(pod); ok {
		return at
	}
	if c := podctl.Condition(pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	if pod.DeletionTimestamp != nil {
		grace := time.Duration(deref(pod.DeletionGracePeriodSeconds)) * time.Second
		return pod.DeletionTimestamp.Add(-grace)
	}
	return time.Time{}
}

// containersEnd returns when the last container or sidecar ended; ok is false unless all have, and say when. Other init
// containers end before these begin.
func containersEnd(pod *corev1.Pod) (at time.Time, ok bool) {
	note := func(s *corev1.ContainerStatus) bool {
		end := s.State.Terminated
		if end == nil || end.FinishedAt.IsZero() {
			return false
		}
		if end.FinishedAt.After(at) {
			at = end.FinishedAt.Time
		}
		return true
	}
	for i := range pod.Status.ContainerStatuses {
		if !note(&pod.Status.ContainerStatuses[i]) {
			return at, false
		}
	}
	for i := range pod.Status.InitContainerStatuses {
		if s := &pod.Status.InitContainerStatuses[i]; podctl.IsSidecar(pod, s.Name) && !note(s) {
			return at, false
		}
	}
	return at, !at.IsZero()
}
