package podstatus

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/controllers/internal/podctl"
	"orrery/kit/client"
)

// Change is what is to become of a pod's status.
type Change struct {
	// Phase to set; empty leaves it.
	Phase corev1.PodPhase
	// Conditions to set, with Type, Status, Reason, Message and ObservedGeneration. Times are filled in.
	Conditions []corev1.PodCondition
}

// Patch returns the strategic merge patch of the status subresource for a change; needed is false if the pod already
// is as the change wants it. The patch holds the pod's UID, so that a successor of the same name is never hit.
func Patch(pod *corev1.Pod, c Change, now time.Time) (p client.Patch, needed bool, err error) {
	status := map[string]any{}
	if c.Phase != "" && c.Phase != pod.Status.Phase {
		status["phase"] = c.Phase
	}
	var conditions []corev1.PodCondition
	for _, want := range c.Conditions {
		old := podctl.Condition(pod, want.Type)
		if old != nil && old.Status == want.Status && old.Reason == want.Reason && old.Message == want.Message {
			continue
		}
		want.LastTransitionTime = metav1.NewTime(now)
		if old != nil && old.Status == want.Status {
			want.LastTransitionTime = old.LastTransitionTime
		}
		conditions = append(conditions, want)
	}
	if len(conditions) > 0 {
		status["conditions"] = conditions
	}
	if len(status) == 0 {
		return p, false, nil
	}
	// Conditions say by themselves what they were made from; only a new phase is a verdict on the whole pod.
	if status["phase"] != nil && pod.Status.ObservedGeneration != pod.Generation {
		status["observedGeneration"] = pod.Generation
	}
	data, err := json.Marshal(struct {
		Metadata uidOnly        `json:"metadata"`
		Status   map[string]any `json:"status"`
	}{uidOnly{pod.UID}, status})
	return client.StrategicPatch(data), true, err
}

type uidOnly struct {
	UID types.UID `json:"uid"`
}
