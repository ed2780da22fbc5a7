package nodelifecycle

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/client"
)

// conditionTaints says which taint corresponds to which status of a condition.
var conditionTaints = []struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	taint     string
}{
	{corev1.NodeReady, corev1.ConditionFalse, corev1.TaintNodeNotReady},
	{corev1.NodeReady, corev1.ConditionUnknown, corev1.TaintNodeUnreachable},
	{corev1.NodeMemoryPressure, corev1.ConditionTrue, corev1.TaintNodeMemoryPressure},
	{corev1.NodeDiskPressure, corev1.ConditionTrue, corev1.TaintNodeDiskPressure},
	{corev1.NodeNetworkUnavailable, corev1.ConditionTrue, corev1.TaintNodeNetworkUnavailable},
	{corev1.NodePIDPressure, corev1.ConditionTrue, corev1.TaintNodePIDPressure},
}

// condition returns the condition of that type, or nil.
func condition(node *corev1.Node, t corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == t {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// followConditions returns the taints that a node should have: NoSchedule taints according to its conditions, and none of
// the two NoExecute taints once it is ready again. NoExecute taints are added elsewhere, at a limited rate.
func followConditions(node *corev1.Node) []corev1.Taint {
	want := map[string]bool{corev1.TaintNodeUnschedulable: node.Spec.Unschedulable}
	for _, c := range conditionTaints {
		now := condition(node, c.condition)
		want[c.taint] = now != nil && now.Status == c.status
	}
	ready := condition(node, corev1.NodeReady)
	alive := ready != nil && ready.Status == corev1.ConditionTrue
	var out []corev1.Taint
	for _, t := range node.Spec.Taints {
		wanted, ours := want[t.Key]
		switch {
		case t.Effect == corev1.TaintEffectNoSchedule && ours:
			if !wanted {
				continue
			}
			delete(want, t.Key)
		case alive && lost(t):
			continue
		}
		out = append(out, t)
	}
	now := metav1.Now()
	for _, c := range conditionTaints {
		if want[c.taint] {
			out = append(out, corev1.Taint{Key: c.taint, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &now})
		}
	}
	if want[corev1.TaintNodeUnschedulable] {
		out = append(out, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &now})
	}
	return out
}

// lost reports whether a taint is one of the two that evict the pods of a lost node.
func lost(t corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoExecute && (t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable)
}

// hasNoExecute reports whether a node has the NoExecute taint of that key.
func hasNoExecute(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return lost(t) && t.Key == key })
}

// withLost returns the taints that a node should have by its conditions, with the NoExecute taint of that key and without
// the other one, or without both if key is empty. The two exclude each other, as the statuses do to which they correspond.
// A node that is lost needs a NoSchedule taint as well, and one write brings both.
func withLost(node *corev1.Node, key string, now time.Time) []corev1.Taint {
	out := slices.DeleteFunc(followConditions(node), func(t corev1.Taint) bool { return lost(t) && t.Key != key })
	if key != "" && !slices.ContainsFunc(out, func(t corev1.Taint) bool { return lost(t) && t.Key == key }) {
		at := metav1.NewTime(now)
		out = append(out, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: &at})
	}
	return out
}

// lostTaint returns the key of the NoExecute taint for a status of the ready condition; it is empty for a node that is alive.
func lostTaint(status corev1.ConditionStatus) string {
	switch status {
	case corev1.ConditionFalse:
		return corev1.TaintNodeNotReady
	case corev1.ConditionUnknown:
		return corev1.TaintNodeUnreachable
	}
	return ""
}

// lostBy returns the key of the NoExecute taint that a node should have. It is empty for a node that is alive and for one
// that has never reported.
func lostBy(node *corev1.Node) string {
	if ready := condition(node, corev1.NodeReady); ready != nil {
		return lostTaint(ready.Status)
	}
	return ""
}

func sameTaints(a, b []corev1.Taint) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.Taint) bool { return x.Key == y.Key && x.Value == y.Value && x.Effect == y.Effect })
}

func taintTexts(taints []corev1.Taint) []string {
	out := make([]string, len(taints))
	for i, t := range taints {
		out[i] = t.ToString()
	}
	return out
}

// patchNode writes taints and labels. The list of taints has no merge key, so it is written whole, bound to the
// version that it was made from: a taint that someone else adds meanwhile is never lost.
func (r *reconciler) patchNode(ctx context.Context, node *corev1.Node, taints []corev1.Taint, labels map[string]string) error {
	metadata := map[string]any{"resourceVersion": node.ResourceVersion, "uid": node.UID}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	patch := map[string]any{"metadata": metadata}
	if !sameTaints(taints, node.Spec.Taints) {
		patch["spec"] = map[string]any{"taints": taints}
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = client.PatchObject(ctx, r.client, node, client.MergePatch(data), client.Brief)
	return client.IgnoreNotFound(err)
}

// betaLabels are deprecated labels that must have the same value as the stable ones.
var betaLabels = map[string]string{
	corev1.LabelOSStable:   "beta.kubernetes.io/os",
	corev1.LabelArchStable: "beta.kubernetes.io/arch",
}

// missingLabels returns the deprecated labels that a node lacks or that have a wrong value.
func missingLabels(node *corev1.Node) map[string]string {
	var out map[string]string
	for stable, beta := range betaLabels {
		value, ok := node.Labels[stable]
		if old, had := node.Labels[beta]; !ok || had && old == value {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[beta] = value
	}
	return out
}
