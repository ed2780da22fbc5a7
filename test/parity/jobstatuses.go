package main

import (
	"math/rand/v2"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// jobStatusProgram edits the status of a Job as no user should.
func jobStatusProgram(r *rand.Rand) program {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: batchv1.JobSpec{
		Parallelism: new(int32(1 + r.IntN(3))), Completions: pick(r, nil, new(int32(2)), new(int32(4))), BackoffLimit: new(int32(r.IntN(3))),
		Template: template("j", pick(r, stay, stay, runs, hang)),
	}}
	s := &job.Spec
	s.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if s.Completions != nil && chance(r, 2) {
		s.CompletionMode = new(batchv1.IndexedCompletion)
		if chance(r, 2) {
			s.BackoffLimitPerIndex = new(int32(r.IntN(2)))
			s.BackoffLimit = nil
		}
		if chance(r, 3) {
			s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: new(int32(1))}}}
		}
	}
	if chance(r, 3) {
		s.Suspend = new(true)
	}
	if chance(r, 4) {
		s.TTLSecondsAfterFinished = new(int32(0))
	}
	if chance(r, 4) {
		s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action:      batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{2}},
		}}}
	}
	d := &jobDraft{Job: job, r: r}
	d.add(created("jobs", job))
	for range 3 + r.IntN(4) {
		jobStatusStep(d)
	}
	d.delete()
	return program{steps: d.steps}
}

func jobStatusStep(d *jobDraft) {
	r := d.r
	status := func(format string, args ...any) { d.add(patchedStatus("jobs", "j", `{"status":`+format+`}`, args...)) }
	condition := func(name string) {
		state := pick(r, "True", "True", "False", "Unknown")
		if name == string(batchv1.JobSuspended) {
			state = "True" // with any other upstream tries to reset the start time, which the server refuses for ever: README, Jobs
		}
		status(`{"conditions":[{"type":%q,"status":%q,"reason":"Why","message":"said the user","lastTransitionTime":"2020-01-01T00:00:00Z"}]}`, name, state)
	}
	what := r.IntN(20)
	if what <= 9 {
		// A Job that may end here has begun: upstream never ends one that has not, README, Jobs. The server refuses this unless
		// the Job is suspended.
		status(`{"startTime":"2020-01-01T00:00:00Z"}`)
	}
	switch what {
	case 0:
		status(`{"active":%d,"ready":%s,"terminating":%s}`, r.IntN(4), pick(r, "0", "1", "null"), pick(r, "0", "2", "null"))
	case 1:
		if !d.indexed() {
			status(`{"succeeded":%d}`, r.IntN(4))
		}
	case 2:
		status(`{"failed":%d}`, r.IntN(4))
	case 3, 4:
		indexes := r.IntN(5) // upstream does not repair a number that does not go with the indexes
		status(`{"completedIndexes":%q,"succeeded":%d}`, []string{"0", "0-1", "1,3", "0-9", ""}[indexes], []int{1, 2, 2, 10, 0}[indexes])
	case 5:
		status(`{"failedIndexes":%s}`, pick(r, `"3"`, `"0-9"`, `""`, "null")) // not of a pod that runs: README, Jobs
	case 6:
		status(`{"uncountedTerminatedPods":{%q:["6bc4a0a6-1111-4222-8333-444455556666"]}}`, pick(r, "failed", "succeeded"))
	case 7:
		status(`{"uncountedTerminatedPods":null}`)
	case 8:
		condition(string(batchv1.JobFailureTarget))
	case 9:
		condition(string(batchv1.JobSuccessCriteriaMet))
	case 10, 11:
		condition(string(batchv1.JobSuspended))
	case 12:
		condition(pick(r, "Complete", "Failed", "Odd"))
	case 13:
		status(`{"conditions":null}`)
	case 14:
		status(`{"startTime":%s}`, pick(r, "null", `"2020-01-01T00:00:00Z"`))
	case 15:
		d.patch(`{"spec":{"suspend":%v}}`, chance(r, 2))
	case 16:
		d.patch(`{"spec":{"activeDeadlineSeconds":%s}}`, pick(r, "1", "1000", "null"))
		d.add(waited(2 * time.Second))
	case 17:
		d.add(podsReport(livePods(0, 1), "succeed", endsWith(corev1.PodSucceeded, 0)))
	case 18:
		d.fail()
	case 19:
		d.add(deleted("jobs", "j", metav1.DeletePropagationForeground))
	}
}
