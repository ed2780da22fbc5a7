package nodepool

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"orrery/api/nodes/v1alpha1"
	"orrery/controllers/nodepool/merge"
	"orrery/controllers/nodepool/record"
)

// patchOf returns the merge patch that gives a node its desired state, record included. The resourceVersion that the outcome
// was computed from is a precondition. A merge patch replaces the whole list of taints, which the precondition makes safe.
func patchOf(node *corev1.Node, out *merge.Outcome) ([]byte, error) {
	labels, annotations := map[string]any{}, map[string]any{}
	taints := false
	for _, c := range out.Changes {
		var to any
		if c.To != nil {
			to = *c.To
		}
		switch c.Key.Kind {
		case record.Label:
			labels[c.Key.Name] = to
		case record.Annotation:
			annotations[c.Key.Name] = to
		case record.Taint:
			taints = true
		}
	}
	if out.Noted {
		annotations[v1alpha1.RecordAnnotation] = nil
		if text := out.Record.Text(); text != "" {
			annotations[v1alpha1.RecordAnnotation] = text
		}
	}
	metadata := map[string]any{"resourceVersion": node.ResourceVersion, "uid": node.UID}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	patch := map[string]any{"metadata": metadata}
	if taints {
		patch["spec"] = map[string]any{"taints": out.State.Taints}
	}
	return json.Marshal(patch)
}
