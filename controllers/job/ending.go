package job

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"orrery/controllers/job/indexes"
	"orrery/kit"
)

// ending is how a Job ends. The zero value means that it goes on.
type ending struct {
	kind            batchv1.JobConditionType // Complete or Failed
	reason, message string
	// declared is true if the status says so already. Then it is final, whatever the counts are now.
	declared bool
}

func (e ending) decided() bool { return e.kind != "" }

// interim returns the condition that declares the ending. It is stored before the first finalizer goes.
func (e ending) interim() batchv1.JobConditionType {
	if e.kind == batchv1.JobComplete {
		return batchv1.JobSuccessCriteriaMet
	}
	return batchv1.JobFailureTarget
}

func fails(reason, message string) ending {
	return ending{kind: batchv1.JobFailed, reason: reason, message: message}
}

// endingOf decides whether a Job is over for any other reason than that all its pods have succeeded. If several reasons
// apply the order decides: what was declared, then failures, then the success policy.
func endingOf(v *view) ending {
	if c := isTrue(v.job, batchv1.JobSuccessCriteriaMet); c != nil {
		return ending{batchv1.JobComplete, c.Reason, c.Message, true}
	}
	if c := isTrue(v.job, batchv1.JobFailureTarget); c != nil {
		return ending{batchv1.JobFailed, c.Reason, c.Message, true}
	}
	if message := failJob(v); message != "" {
		return fails(batchv1.JobReasonPodFailurePolicy, message)
	}
	if limit := backoffLimit(v.job); v.failed > limit || restartsExceed(v, limit) {
		return fails(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	}
	if left, ok := deadline(v); ok && left <= 0 {
		return fails(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	}
	if most := v.job.Spec.MaxFailedIndexes; perIndex(v.job) && most != nil && v.lost.Len() > int(*most) {
		return fails(batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes")
	}
	if n := v.lost.Len(); n > 0 && n+v.completed.Len() >= int(*v.job.Spec.Completions) {
		return fails(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
	}
	if rule, met := successRule(v); met {
		return ending{kind: batchv1.JobComplete, reason: batchv1.JobReasonSuccessPolicy, message: fmt.Sprintf("Matched rules at index %d", rule)}
	}
	return ending{}
}

// completed is the ending of a Job whose pods have succeeded.
func completed() ending {
	return ending{kind: batchv1.JobComplete, reason: batchv1.JobReasonCompletionsReached, message: "Reached expected number of succeeded pods"}
}

// completes reports whether enough pods have succeeded and, of that many active ones, none runs any more. A Job without
// a number of completions is done when one has succeeded and the others have ended.
func completes(v *view, active int) bool {
	enough := v.succeeded > 0
	if n := v.job.Spec.Completions; n != nil {
		enough = v.succeeded >= int(*n)
	}
	return enough && active == 0
}

// failJob returns why the pod failure policy ends the Job; of several pods, the one that ended first decides.
func failJob(v *view) (message string) {
	if !canFailJob(v.job.Spec.PodFailurePolicy) {
		return ""
	}
	var first time.Time
	look := func(pod *corev1.Pod) {
		if j := judge(v.job.Spec.PodFailurePolicy, pod); j.message != "" {
			if at := finishTime(pod); message == "" || at.Before(first) {
				message, first = j.message, at
			}
		}
	}
	for _, m := range v.members {
		if m.fate == failure {
			look(m.pod)
		}
	}
	for _, pod := range v.counted {
		look(pod)
	}
	return message
}

func backoffLimit(job *batchv1.Job) int {
	if job.Spec.BackoffLimit == nil {
		return 6 // as the server fills in
	}
	return int(*job.Spec.BackoffLimit)
}

// restartsExceed reports whether the containers of running pods have been restarted too often, where it is the kubelet
// that starts them again.
func restartsExceed(v *view, limit int) bool {
	if v.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	n := 0
	for _, m := range v.members {
		if p := m.pod.Status.Phase; p == corev1.PodRunning || p == corev1.PodPending {
			n += restarts(m.pod)
		}
	}
	return n > 0 && n >= limit
}

func restarts(pod *corev1.Pod) (n int) {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			n += int(list[i].RestartCount)
		}
	}
	return n
}

// deadline returns how much longer the Job may be active; ok is false if there is no limit or it is suspended. The time
// before the suspension does not count, even while the status of a resumed Job still holds the old start time.
func deadline(v *view) (left time.Duration, ok bool) {
	limit := v.job.Spec.ActiveDeadlineSeconds
	if limit == nil || *limit > kit.MaxSeconds || suspended(v.job) {
		return 0, false
	}
	start := v.now // it starts with this reconcile
	if t := v.job.Status.StartTime; t != nil && !turns(v) {
		start = t.Time
	}
	return time.Duration(*limit)*time.Second - v.now.Sub(start), true
}

// successRule returns the first rule of the success policy that the completed indexes meet.
func successRule(v *view) (at int, met bool) {
	policy := v.job.Spec.SuccessPolicy
	if policy == nil || len(v.completed) == 0 {
		return 0, false
	}
	for at, rule := range policy.Rules {
		if meets(rule, v.completed, int(*v.job.Spec.Completions)) {
			return at, true
		}
	}
	return 0, false
}

func meets(rule batchv1.SuccessPolicyRule, done indexes.Set, completions int) bool {
	if rule.SucceededIndexes == nil {
		return rule.SucceededCount != nil && done.Len() >= int(*rule.SucceededCount)
	}
	wanted := indexes.Parse(*rule.SucceededIndexes, completions)
	n := wanted.Common(done)
	return len(wanted) > 0 && (n == wanted.Len() || rule.SucceededCount != nil && n >= int(*rule.SucceededCount))
}
