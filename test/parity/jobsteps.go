package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// over reports whether a pod has ended.
func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// livePods are pods that have not ended and are not being deleted.
func livePods(from, to int) which {
	return which{"live", func(pod *corev1.Pod) bool { return !over(pod) && pod.DeletionTimestamp == nil }, from, to}
}

// goingPods are pods that are being deleted.
func goingPods(from, to int) which {
	return which{"terminating", func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }, from, to}
}

func everyPod() which { return which{"all", func(*corev1.Pod) bool { return true }, 0, 1000} }

// stripped is the step that takes the finalizers off the pods that no Job takes off, so that nothing keeps the namespace.
func stripped() step {
	return forEach(everyPod(), "lose their finalizers", func(ctx context.Context, s *subject, pod *corev1.Pod) error {
		if ref := metav1.GetControllerOf(pod); ref != nil && ref.Kind != "Job" {
			return s.patch(ctx, "pods", pod.Name, `{"metadata":{"finalizers":null}}`)
		}
		left := slices.DeleteFunc(pod.Finalizers, func(f string) bool { return f == "example.com/hold" })
		list, err := json.Marshal(left)
		if err != nil {
			return err
		}
		return s.patch(ctx, "pods", pod.Name, fmt.Sprintf(`{"metadata":{"finalizers":%s}}`, list))
	})
}

// unhung is the step that lets pods go that are being deleted.
func unhung() step {
	return patchedPods(goingPods(0, 100), `{"metadata":{"annotations":{"parity/acts":"stay"}}}`)
}

// endsWith lets the containers of a pod end with codes, as if it had been as soon as the pod was made: what is left of the
// back-off is then short. The init containers have ended well.
func endsWith(phase corev1.PodPhase, codes ...int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		ended(pod, phase, 0)
		end := func(list []corev1.ContainerStatus, code func(i int) int32) {
			for i := range list {
				list[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code(i), StartedAt: pod.CreationTimestamp, FinishedAt: pod.CreationTimestamp}}
			}
		}
		pod.Status.InitContainerStatuses = setups(pod)
		end(pod.Status.InitContainerStatuses, func(int) int32 { return 0 })
		end(pod.Status.ContainerStatuses, func(i int) int32 { return codes[i%len(codes)] })
	}
}

func setups(pod *corev1.Pod) (out []corev1.ContainerStatus) {
	for _, c := range pod.Spec.InitContainers {
		out = append(out, corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: c.Image})
	}
	return out
}

// failsEarly lets a pod fail in its init container; its containers never start.
func failsEarly(code int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		endsWith(corev1.PodFailed, 0)(pod)
		for i := range pod.Status.InitContainerStatuses {
			pod.Status.InitContainerStatuses[i].State.Terminated.ExitCode = code
		}
		for i := range pod.Status.ContainerStatuses {
			pod.Status.ContainerStatuses[i].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
		}
	}
}

// disrupted tells a pod that it was evicted.
func disrupted(pod *corev1.Pod) {
	pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "TerminationByKubelet", LastTransitionTime: metav1.Now(),
	})
}

func evicted(pod *corev1.Pod) {
	endsWith(corev1.PodFailed, 137)(pod)
	pod.Status.Reason = "Evicted"
	disrupted(pod)
}

// backedOff is the step that waits until the back-off after that many failures has passed, or the Job has ended.
func backedOff(job string, failures int) step {
	wait := 10*time.Second<<(failures-1) + time.Second
	return step{text: fmt.Sprintf("wait for the back-off after %d failures", failures), do: func(ctx context.Context, s *subject) error {
		return s.await(ctx, job, wait)
	}}
}

// await waits for a time or until a Job has ended, and gets no more pods in any case.
func (s *subject) await(ctx context.Context, name string, most time.Duration) error {
	for end := time.Now().Add(most); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		job, err := s.client.BatchV1().Jobs(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if jobOver(job) {
			return nil
		}
	}
	return nil
}

// remove lets a user delete pods, and perhaps see to their end.
func (d *jobDraft) remove() {
	if d.failures >= 2 {
		return
	}
	w := livePods(0, 1+d.r.IntN(2))
	if chance(d.r, 2) {
		d.add(forEach(w, "hang", func(ctx context.Context, s *subject, pod *corev1.Pod) error {
			return s.patch(ctx, "pods", pod.Name, `{"metadata":{"annotations":{"parity/acts":"hang"}}}`)
		}))
	}
	d.add(forEach(w, "are deleted", func(ctx context.Context, s *subject, pod *corev1.Pod) error {
		return s.delete(ctx, "pods", pod.Name, "")
	}))
	// A pod that is deleted counts as failed at that time.
	d.failures += w.to
	d.add(backedOff(d.Name, d.failures))
	switch d.r.IntN(4) {
	case 0:
		d.add(podsReport(goingPods(0, 1), "fail", endsWith(corev1.PodFailed, 143)))
	case 1:
		d.add(podsReport(goingPods(0, 2), "succeed", endsWith(corev1.PodSucceeded, 0)))
	case 2:
		d.add(unhung())
		d.add(backedOff(d.Name, d.failures))
	}
}

// delete deletes the Job; without a policy, the server orphans the pods. Whether a Job that has lost its last pods by being
// orphaned ends just before it goes is a race, so a Job without a number of completions is not orphaned, and pods that hang
// go first.
func (d *jobDraft) delete() {
	how := pick(d.r, "", metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground, metav1.DeletePropagationBackground)
	if how == "" || how == metav1.DeletePropagationOrphan {
		if d.Spec.Completions == nil {
			how = metav1.DeletePropagationBackground
		}
		d.add(unhung(), stripped())
	}
	d.add(deleted("jobs", d.Name, how))
}

// change edits what may be edited while a Job runs.
func (d *jobDraft) change() {
	r := d.r
	switch r.IntN(8) {
	case 0, 1:
		n := r.IntN(5)
		if d.indexed() {
			// Of pods that are alike, chance decides which go. Pods that are ready stay.
			d.add(podsReport(livePods(0, n), "are ready", ready))
		}
		d.patch(`{"spec":{"parallelism":%d}}`, n)
	case 2:
		n := r.IntN(5)
		d.patch(`{"spec":{"parallelism":%d,"completions":%d}}`, n, n)
	case 3:
		d.patch(`{"spec":{"backoffLimit":%d}}`, r.IntN(3))
	case 4:
		d.patch(`{"spec":{"maxFailedIndexes":%s}}`, pick(r, "0", "1", "null"))
	case 5:
		d.patch(`{"spec":{"podReplacementPolicy":"%s"}}`, pick(r, "Failed", "TerminatingOrFailed"))
	case 6:
		d.patch(`{"metadata":{"labels":{"note":"%d"}}}`, r.IntN(9))
	case 7:
		d.patch(`{"spec":{"ttlSecondsAfterFinished":%s}}`, pick(r, "0", "1", "100", "null"))
	}
}

// turn suspends or resumes the Job, and changes its template while it is suspended.
func (d *jobDraft) turn() {
	d.patch(`{"spec":{"suspend":true}}`)
	if chance(d.r, 2) {
		d.patch(`{"spec":{"parallelism":%d}}`, d.r.IntN(4))
	}
	if chance(d.r, 2) {
		d.patch(`{"spec":{"template":{"metadata":{"annotations":{"note":"x"},"labels":{"note":"x"}},"spec":{"nodeSelector":{"kubernetes.io/os":"linux"}}}}}`)
	}
	if chance(d.r, 4) {
		d.patch(`{"spec":{"activeDeadlineSeconds":1}}`)
		d.add(waited(2 * time.Second))
	}
	if !chance(d.r, 4) {
		d.patch(`{"spec":{"suspend":%s}}`, pick(d.r, "false", "null"))
		d.add(backedOff(d.Name, max(1, d.failures)))
	}
}

// expire lets the deadline pass.
func (d *jobDraft) expire() {
	n := 1 + d.r.IntN(6)
	d.patch(`{"spec":{"activeDeadlineSeconds":%d}}`, n)
	d.add(waited(time.Duration(n+1) * time.Second))
}

// restart lets the kubelet start the containers again.
func (d *jobDraft) restart() {
	n := int32(d.r.IntN(3))
	d.add(podsReport(livePods(0, 2), fmt.Sprintf("are restarted %d times", n), func(pod *corev1.Pod) {
		running(pod)
		pod.Status.InitContainerStatuses = setups(pod)
		for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for i := range list {
				list[i].RestartCount = n
			}
		}
	}))
}
