package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// jobDraft is a Job while its program is drawn.
type jobDraft struct {
	*batchv1.Job
	r *rand.Rand
	// failures is how many pods may have failed so far: the next pod waits for 10 s after one, then 20 s, and so on.
	failures int
	rivals   bool // another Job has the same selector
	steps    []step
}

func (d *jobDraft) add(steps ...step) { d.steps = append(d.steps, steps...) }

func (d *jobDraft) indexed() bool {
	return d.Spec.CompletionMode != nil && *d.Spec.CompletionMode == batchv1.IndexedCompletion
}

func (d *jobDraft) patch(format string, args ...any) {
	d.add(patched("jobs", d.Name, format, args...))
}

// jobProgram runs a Job of any kind and lets its pods end in every way.
func jobProgram(r *rand.Rand) program {
	d := &jobDraft{Job: drawJob(r), r: r}
	d.add(created("jobs", d.Job))
	for range 2 + r.IntN(4) {
		jobStep(d)
	}
	if chance(r, 2) {
		d.delete()
	}
	if chance(r, 5) {
		// Another one of the name, perhaps while pods of the first still hang.
		d.add(created("jobs", d.Job))
		if chance(r, 2) {
			d.add(podsReport(livePods(0, 2), "succeed", endsWith(corev1.PodSucceeded, 0)), unhung())
		}
	}
	if d.Spec.BackoffLimitPerIndex != nil {
		// Upstream never releases the failed pods of a Job whose namespace goes: README, Jobs.
		d.add(deleted("jobs", d.Name, metav1.DeletePropagationBackground))
	}
	if len(d.Spec.Template.Finalizers) > 0 {
		d.add(unhung(), stripped(), deleted("jobs", d.Name, metav1.DeletePropagationOrphan), stripped())
	}
	return program{steps: d.steps}
}

// drawJob draws a Job. Some are not valid, which both servers say.
func drawJob(r *rand.Rand) *batchv1.Job {
	name := "j"
	if chance(r, 4) {
		name = pick(r, strings.Repeat("j", 60), strings.Repeat("j", 63), "j.x", strings.Repeat("long-", 11)+"j", "0")
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Template: template("j", pick(r, stay, stay, stay, stay, hang, runs))}}
	s := &job.Spec
	s.Template.Labels["kind"] = "j"
	s.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	s.Parallelism = pick(r, nil, new(int32(0)), new(int32(1)), new(int32(2)), new(int32(2)), new(int32(3)), new(int32(4)))
	s.Completions = pick(r, nil, new(int32(0)), new(int32(1)), new(int32(2)), new(int32(3)), new(int32(5)))
	s.BackoffLimit = pick(r, nil, new(int32(0)), new(int32(1)), new(int32(2)), new(int32(3)), new(int32(2147483647)))
	if chance(r, 2) {
		drawIndexed(r, s)
	}
	if chance(r, 3) {
		drawFailurePolicy(r, s)
	}
	if chance(r, 4) {
		s.PodReplacementPolicy = new(pick(r, batchv1.Failed, batchv1.TerminatingOrFailed))
	}
	if chance(r, 5) {
		s.Suspend = new(true)
	}
	if chance(r, 5) {
		s.TTLSecondsAfterFinished = new(int32(r.IntN(2)))
	}
	if chance(r, 12) {
		s.ManagedBy = new(pick(r, "example.com/other", batchv1.JobControllerName))
	}
	if chance(r, 6) {
		s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	drawContainers(r, job)
	return job
}

func drawIndexed(r *rand.Rand, s *batchv1.JobSpec) {
	s.CompletionMode = new(batchv1.IndexedCompletion)
	s.Completions = new(pick(r, int32(0), 1, 2, 3, 4, 12))
	if chance(r, 2) {
		s.BackoffLimitPerIndex = pick(r, new(int32(0)), new(int32(1)), new(int32(2)))
		if chance(r, 2) {
			s.MaxFailedIndexes = new(int32(r.IntN(int(*s.Completions) + 1)))
		}
	}
	if chance(r, 3) {
		s.SuccessPolicy = &batchv1.SuccessPolicy{}
		for range 1 + r.IntN(3) {
			rule := batchv1.SuccessPolicyRule{}
			if chance(r, 2) {
				rule.SucceededIndexes = new(pick(r, "0", "0-1", "1,3", "2", "0,2-3", "9"))
			}
			if rule.SucceededIndexes == nil || chance(r, 2) {
				rule.SucceededCount = new(int32(1 + r.IntN(2)))
			}
			s.SuccessPolicy.Rules = append(s.SuccessPolicy.Rules, rule)
		}
	}
}

func drawFailurePolicy(r *rand.Rand, s *batchv1.JobSpec) {
	s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{}}
	for range r.IntN(4) {
		rule := batchv1.PodFailurePolicyRule{Action: pick(r, batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionCount)}
		if s.BackoffLimitPerIndex != nil && chance(r, 3) {
			rule.Action = batchv1.PodFailurePolicyActionFailIndex
		}
		if chance(r, 3) {
			rule.OnPodConditions = []batchv1.PodFailurePolicyOnPodConditionsPattern{{
				Type: pick(r, corev1.DisruptionTarget, corev1.DisruptionTarget, corev1.PodReady, "Odd"), Status: pick(r, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse, ""),
			}}
		} else {
			rule.OnExitCodes = &batchv1.PodFailurePolicyOnExitCodesRequirement{
				Operator: pick(r, batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn),
				Values:   pick(r, []int32{1}, []int32{2}, []int32{1, 3}, []int32{42, 137}),
			}
			if chance(r, 3) {
				rule.OnExitCodes.ContainerName = new(pick(r, "main", "side", "setup"))
			}
		}
		s.PodFailurePolicy.Rules = append(s.PodFailurePolicy.Rules, rule)
	}
}

// drawContainers adds containers, finalizers and variables to a Job's template.
func drawContainers(r *rand.Rand, job *batchv1.Job) {
	t := &job.Spec.Template
	if chance(r, 3) || job.Spec.PodFailurePolicy != nil && chance(r, 2) {
		t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: "side", Image: "fake:1"})
		t.Spec.InitContainers = append(t.Spec.InitContainers, corev1.Container{Name: "setup", Image: "fake:1"})
	}
	if chance(r, 5) {
		t.Spec.Containers[0].Env = []corev1.EnvVar{{Name: pick(r, "JOB_COMPLETION_INDEX", "OTHER"), Value: "x"}}
	}
	if chance(r, 6) {
		t.Finalizers = pick(r, []string{"example.com/hold"}, []string{batchv1.JobTrackingFinalizer}, []string{batchv1.JobTrackingFinalizer, "example.com/hold"})
	}
	if chance(r, 8) {
		t.Labels[batchv1.JobCompletionIndexAnnotation] = "7"
		t.Annotations[batchv1.JobCompletionIndexAnnotation] = "7"
	}
	if chance(r, 8) {
		t.GenerateName, t.Name = "odd-", "odd"
		t.Spec.Hostname = "odd"
	}
	if chance(r, 10) {
		job.Annotations = map[string]string{"batch.kubernetes.io/job-tracking": "", "note": "x"}
		job.Labels = map[string]string{"note": "x"}
	}
	if chance(r, 10) {
		t.Annotations[batchv1.JobIndexFailureCountAnnotation] = pick(r, "3", "x")
	}
}

// jobStep adds a step, or a few that belong together.
func jobStep(d *jobDraft) {
	r := d.r
	switch r.IntN(14) {
	case 0, 1, 2:
		d.add(podsReport(livePods(d.some()), "succeed", endsWith(corev1.PodSucceeded, 0)))
	case 3, 4, 5, 6:
		d.fail()
	case 7:
		d.add(podsReport(livePods(d.some()), "are ready", ready))
	case 8:
		d.remove()
	case 9, 10:
		d.change()
	case 11:
		d.turn()
	case 12:
		d.expire()
	case 13:
		d.restart()
	}
}

// some returns a small range of pods.
func (d *jobDraft) some() (from, to int) {
	from = pick(d.r, 0, 0, 0, 1)
	return from, from + pick(d.r, 1, 1, 2, 5)
}

// fail lets a pod end badly, and waits for the back-off to pass.
func (d *jobDraft) fail() {
	if d.failures >= 3 {
		return
	}
	from := d.r.IntN(2)
	// The pods of an Indexed Job have different names, and if several fail, chance decides which of them upstream names.
	to := from + 1
	if !d.indexed() || d.Spec.PodFailurePolicy == nil {
		to = from + pick(d.r, 1, 1, 2)
	}
	w := livePods(from, to)
	codes := pick(d.r, []int32{1}, []int32{2}, []int32{3}, []int32{137, 1}, []int32{0, 42}, []int32{1, 0})
	switch {
	case chance(d.r, 4):
		d.add(podsReport(w, "are evicted", evicted))
	case chance(d.r, 6):
		d.add(podsReport(w, "fail in an init container", failsEarly(codes[0])))
	case chance(d.r, 8):
		d.add(podsReport(w, "fail without a trace", func(pod *corev1.Pod) { pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Gone" }))
	default:
		d.add(podsReport(w, fmt.Sprintf("fail with %v", codes), endsWith(corev1.PodFailed, codes...)))
	}
	if d.failures += to - from; d.failures < 4 && !chance(d.r, 4) {
		d.add(backedOff(d.Name, d.failures))
	}
	if chance(d.r, 4) {
		d.add(podsReport(which{"failed", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed }, 0, 9}, "turn out to be disrupted", disrupted))
	}
}
