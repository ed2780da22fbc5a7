package job

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// judgement is what a Job's pod failure policy says about a failed pod. The zero value means that no rule applies.
type judgement struct {
	action batchv1.PodFailurePolicyAction
	// message says why the Job fails, where the action is FailJob.
	message string
}

// counts reports whether the failure goes into the Job's count of failures.
func (j judgement) counts() bool { return j.action != batchv1.PodFailurePolicyActionIgnore }

// known reports whether this version knows an action. A rule with any other action is ignored.
func known(action batchv1.PodFailurePolicyAction) bool {
	switch action {
	case batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionFailIndex,
		batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionCount:
		return true
	}
	return false
}

// canFailJob reports whether a policy has a rule that ends the Job.
func canFailJob(policy *batchv1.PodFailurePolicy) bool {
	return policy != nil && slices.ContainsFunc(policy.Rules, func(r batchv1.PodFailurePolicyRule) bool {
		return r.Action == batchv1.PodFailurePolicyActionFailJob
	})
}

// judge finds the first rule that applies to a failed pod.
func judge(policy *batchv1.PodFailurePolicy, pod *corev1.Pod) judgement {
	if policy == nil {
		return judgement{}
	}
	for at := range policy.Rules {
		rule := &policy.Rules[at]
		what, applies := cause(rule, pod)
		if !applies || !known(rule.Action) {
			continue
		}
		j := judgement{action: rule.Action}
		if rule.Action == batchv1.PodFailurePolicyActionFailJob {
			j.message = fmt.Sprintf("%s matching %s rule at index %d", what, rule.Action, at)
		}
		return j
	}
	return judgement{}
}

// cause returns what it is in a pod that a rule applies to; applies is false if there is nothing.
func cause(rule *batchv1.PodFailurePolicyRule, pod *corev1.Pod) (what fmt.Stringer, applies bool) {
	if codes := rule.OnExitCodes; codes != nil {
		for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
			at := slices.IndexFunc(list, func(s corev1.ContainerStatus) bool { return codesApply(codes, &s) })
			if at >= 0 {
				return exited{pod, list[at].Name, list[at].State.Terminated.ExitCode}, true
			}
		}
		return nil, false
	}
	for _, c := range pod.Status.Conditions {
		for _, pattern := range rule.OnPodConditions {
			if c.Type == pattern.Type && c.Status == pattern.Status {
				return conditioned{pod, c.Type}, true
			}
		}
	}
	return nil, false
}

// codesApply reports whether a container has ended with an exit code that a rule is about. A clean exit never is.
func codesApply(rule *batchv1.PodFailurePolicyOnExitCodesRequirement, s *corev1.ContainerStatus) bool {
	code := exitCode(s)
	if code == 0 || rule.ContainerName != nil && *rule.ContainerName != s.Name {
		return false
	}
	switch rule.Operator {
	case batchv1.PodFailurePolicyOnExitCodesOpIn:
		return slices.Contains(rule.Values, code)
	case batchv1.PodFailurePolicyOnExitCodesOpNotIn:
		return !slices.Contains(rule.Values, code)
	}
	return false
}

// exitCode returns the code with which a container has failed, or 0.
func exitCode(s *corev1.ContainerStatus) int32 {
	if end := s.State.Terminated; end != nil {
		return end.ExitCode
	}
	return 0
}

// exited and conditioned are put into words only for the pod that makes a Job fail.
type exited struct {
	pod       *corev1.Pod
	container string
	code      int32
}

// String implements fmt.Stringer.
func (e exited) String() string {
	return fmt.Sprintf("Container %s for pod %s failed with exit code %d", e.container, klog.KObj(e.pod), e.code)
}

type conditioned struct {
	pod       *corev1.Pod
	condition corev1.PodConditionType
}

// String implements fmt.Stringer.
func (c conditioned) String() string {
	return fmt.Sprintf("Pod %s has condition %s", klog.KObj(c.pod), c.condition)
}
