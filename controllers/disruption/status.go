package disruption

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/internal/podctl"
)

// deletionTimeout is how long an evicted pod in status.disruptedPods counts as gone without being deleted. It has to cover
// the delay until this cache shows the deletion, and the difference between the server's clock and ours.
const deletionTimeout = 2 * time.Minute

// plan is the new status of a budget, and what to report about it.
type plan struct {
	status    policyv1.PodDisruptionBudgetStatus
	changed   bool
	pods      int
	unmanaged []string
	survivors []*corev1.Pod // evicted pods that were not deleted in time
	recheck   time.Duration // when the next evicted pod is to count again; 0 if there is none
}

// makePlan computes the status of a budget from its pods.
func makePlan(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod, want expectation, now time.Time) plan {
	p := plan{pods: len(pods), unmanaged: want.unmanaged}
	leaving := p.await(b.Status.DisruptedPods, pods, now)
	p.status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: b.Generation,
		DisruptedPods:      leaving,
		CurrentHealthy:     healthy(pods, leaving),
		DesiredHealthy:     want.desired,
		ExpectedPods:       want.expected,
		Conditions:         b.Status.Conditions,
	}
	// A budget that expects no pods allows no disruption: its first pods could be evicted before this controller sees them.
	if want.expected > 0 {
		p.status.DisruptionsAllowed = max(0, p.status.CurrentHealthy-want.desired)
	}
	condition := metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason,
		ObservedGeneration: b.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	if p.status.DisruptionsAllowed > 0 {
		condition.Status, condition.Reason = metav1.ConditionTrue, policyv1.SufficientPodsReason
	}
	p.changed = !hasCondition(b.Status.Conditions, condition) || !sameNumbers(b.Status, p.status)
	if p.changed {
		p.status.Conditions = withCondition(b.Status.Conditions, condition)
	}
	return p
}

// await returns the evicted pods that still have to be deleted. It leaves out those that are deleted, or being deleted, and
// those that were not deleted in time.
func (p *plan) await(evicted map[string]metav1.Time, pods []*corev1.Pod, now time.Time) map[string]metav1.Time {
	if len(evicted) == 0 {
		return nil
	}
	leaving := make(map[string]metav1.Time, len(evicted))
	for _, pod := range pods {
		at, ok := evicted[pod.Name]
		if !ok || pod.DeletionTimestamp != nil {
			continue
		}
		left := at.Add(deletionTimeout).Sub(now)
		if left < 0 {
			p.survivors = append(p.survivors, pod)
			continue
		}
		leaving[pod.Name] = at
		// With exactly 0 left a pod still counts as leaving, so the recheck must be a moment later.
		if left = max(left, time.Millisecond); p.recheck == 0 || left < p.recheck {
			p.recheck = left
		}
	}
	return leaving
}

// healthy counts the pods that are ready and not leaving.
func healthy(pods []*corev1.Pod, leaving map[string]metav1.Time) int32 {
	var n int32
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || !podctl.Ready(pod) {
			continue
		}
		if _, ok := leaving[pod.Name]; !ok {
			n++
		}
	}
	return n
}

// failedStatus returns the status of a budget whose numbers cannot be computed, and whether that is a change. Apart from
// disruptionsAllowed the numbers stay as they are.
func failedStatus(b *policyv1.PodDisruptionBudget, err error, now time.Time) (status policyv1.PodDisruptionBudgetStatus, changed bool) {
	status = b.Status
	status.DisruptionsAllowed = 0
	condition := metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason,
		Message: err.Error(), ObservedGeneration: b.Status.ObservedGeneration, LastTransitionTime: metav1.NewTime(now),
	}
	has := meta.FindStatusCondition(b.Status.Conditions, condition.Type)
	if b.Status.DisruptionsAllowed == 0 && has != nil && hasCondition(b.Status.Conditions, condition) && has.Message == condition.Message {
		return b.Status, false
	}
	status.Conditions = withCondition(b.Status.Conditions, condition)
	return status, true
}

// hasCondition reports whether there is a condition with the same type, status, reason and generation.
func hasCondition(conditions []metav1.Condition, c metav1.Condition) bool {
	has := meta.FindStatusCondition(conditions, c.Type)
	return has != nil && has.Status == c.Status && has.Reason == c.Reason && has.ObservedGeneration == c.ObservedGeneration
}

// withCondition returns a copy of the conditions with one set.
func withCondition(conditions []metav1.Condition, c metav1.Condition) []metav1.Condition {
	out := slices.Clone(conditions)
	meta.SetStatusCondition(&out, c)
	return out
}

func sameNumbers(a, b policyv1.PodDisruptionBudgetStatus) bool {
	return a.ObservedGeneration == b.ObservedGeneration && a.CurrentHealthy == b.CurrentHealthy &&
		a.DesiredHealthy == b.DesiredHealthy && a.ExpectedPods == b.ExpectedPods &&
		a.DisruptionsAllowed == b.DisruptionsAllowed && sameTimes(a.DisruptedPods, b.DisruptedPods)
}

func sameTimes(a, b map[string]metav1.Time) bool {
	if len(a) != len(b) {
		return false
	}
	for name, at := range a {
		if other, ok := b[name]; !ok || !other.Equal(&at) {
			return false
		}
	}
	return true
}
