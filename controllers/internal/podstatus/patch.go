package podstatus

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/controllers/internal/podctl"
	"orrery/kit/client"
)

// Change is a change of a pod's status.
type Change struct {
	// Phase to set; empty leaves the phase as it is.
	Phase corev1.PodPhase
	// Conditions to set, with Type, Status, Reason, Message and ObservedGeneration. Times are filled in.
	Conditions []corev1.PodCondition
	// OnlyThisVersion makes the patch conflict with every write since the pod was read. It is for changes that are correct
	// only for the status as read.
	OnlyThisVersion bool
}

// Patch returns the strategic merge patch of the status subresource for a change; needed is false if the change would have
// no effect. The patch contains the pod's UID, so that it is never applied to a later pod of the same name.
func Patch(pod *corev1.Pod, c Change, now time.Time) (p client.Patch, needed bool, err error) {
	status := map[string]any{}
	if c.Phase != "" && c.Phase != pod.Status.Phase {
		status["phase"] = c.Phase
	}
	var conditions []any
	changed := newOnesLast(pod, c.Conditions)
	for _, want := range changed {
		old := podctl.Condition(pod, want.Type)
		if old != nil && old.Status == want.Status && old.Reason == want.Reason && old.Message == want.Message {
			continue
		}
		want.LastTransitionTime = metav1.NewTime(now)
		if old != nil && old.Status == want.Status {
			want.LastTransitionTime = old.LastTransitionTime
		}
		conditions = append(conditions, merged(old, want))
	}
	if len(conditions) > 0 {
		status["conditions"] = conditions
		status["$setElementOrder/conditions"] = client.ElementOrder("type", conditionType, pod.Status.Conditions, changed)
	}
	if len(status) == 0 {
		return p, false, nil
	}
	// A condition has an observedGeneration of its own; that of the status is set only with a new phase.
	if status["phase"] != nil && pod.Status.ObservedGeneration != pod.Generation {
		status["observedGeneration"] = pod.Generation
	}
	target := precondition{UID: pod.UID}
	if c.OnlyThisVersion {
		target.ResourceVersion = pod.ResourceVersion
	}
	data, err := json.Marshal(struct {
		Metadata precondition   `json:"metadata"`
		Status   map[string]any `json:"status"`
	}{target, status})
	return client.StrategicPatch(data), true, err
}

// newOnesLast sorts conditions in the order of the pod's, followed by those that the pod does not have.
func newOnesLast(pod *corev1.Pod, conditions []corev1.PodCondition) []corev1.PodCondition {
	place := func(c corev1.PodCondition) int {
		i := slices.IndexFunc(pod.Status.Conditions, func(has corev1.PodCondition) bool { return has.Type == c.Type })
		if i < 0 {
			return len(pod.Status.Conditions)
		}
		return i
	}
	out := slices.Clone(conditions)
	slices.SortStableFunc(out, func(a, b corev1.PodCondition) int { return cmp.Compare(place(a), place(b)) })
	return out
}

func conditionType(c corev1.PodCondition) corev1.PodConditionType { return c.Type }

type precondition struct {
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
}

// merged returns a condition in the form for a patch. A merge keeps fields that are not in the patch, so a reason or message
// is removed by an explicit null.
func merged(old *corev1.PodCondition, want corev1.PodCondition) any {
	if old == nil || (want.Reason != "" || old.Reason == "") && (want.Message != "" || old.Message == "") {
		return want
	}
	return struct {
		corev1.PodCondition
		Reason  *string `json:"reason"`
		Message *string `json:"message"`
	}{want, orNull(want.Reason), orNull(want.Message)}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
