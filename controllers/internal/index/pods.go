package index

import (
	corev1 "k8s.io/api/core/v1"

	"orrery/kit/cache"
)

// PodsByNode indexes scheduled pods by the name of their node.
func PodsByNode() cache.Index[*corev1.Pod] {
	return cache.Index[*corev1.Pod]{Name: "node", Keys: func(p *corev1.Pod) []string {
		if p.Spec.NodeName == "" {
			return nil
		}
		return []string{p.Spec.NodeName}
	}}
}

// Values of PodsByEnd.
const (
	Terminal    = "terminal"    // the pod has succeeded or failed
	Terminating = "terminating" // the pod is being deleted
)

// PodsByEnd indexes pods that have ended or are being deleted; most pods of a cluster have neither value.
func PodsByEnd() cache.Index[*corev1.Pod] {
	return cache.Index[*corev1.Pod]{Name: "end", Keys: func(p *corev1.Pod) []string {
		var under []string
		switch p.Status.Phase {
		case corev1.PodPending, corev1.PodRunning, corev1.PodUnknown:
		default:
			under = append(under, Terminal)
		}
		if p.DeletionTimestamp != nil {
			under = append(under, Terminating)
		}
		return under
	}}
}
