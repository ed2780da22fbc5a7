package daemonset

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/internal/podctl"
)

const (
	// hashLabel on pods and revisions names the revision that a pod was made from.
	hashLabel = appsv1.DefaultDaemonSetUniqueLabelKey
	// generationLabel on pods distinguished templates before there was a hash. The server still keeps the generation, in an
	// annotation of the DaemonSet.
	generationLabel = "pod-template-generation"
)

// kind is the kind of a DaemonSet in owner references.
var kind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// templateID identifies the pods of a template.
type templateID struct {
	hash       string
	equivalent []string // hashes of other revisions with a semantically equal template
	generation string   // empty if it is missing or invalid
}

// generationOf returns the value of generationLabel for a DaemonSet's template, or "" if the generation is missing or
// invalid.
func generationOf(set *appsv1.DaemonSet) string {
	n, err := strconv.ParseInt(set.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// matches reports whether a pod was made from the template.
func (id templateID) matches(pod *corev1.Pod) bool {
	return id.matchesHash(pod) || id.generation != "" && pod.Labels[generationLabel] == id.generation
}

// matchesHash reports whether a pod was made from the template, judging by its hash alone.
func (id templateID) matchesHash(pod *corev1.Pod) bool {
	hash := pod.Labels[hashLabel]
	return hash != "" && (hash == id.hash || slices.Contains(id.equivalent, hash))
}

// newPod returns a pod of the template that is not pinned to a node yet. It shares nothing with the DaemonSet, and is made
// once for many nodes; see pinned.
func (id templateID) newPod(set *appsv1.DaemonSet) *corev1.Pod {
	pod := podctl.FromTemplate(&set.Spec.Template, set, *metav1.NewControllerRef(set, kind))
	pod.Spec.Tolerations = tolerationsOf(&pod.Spec)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	if id.generation != "" {
		pod.Labels[generationLabel] = id.generation
	}
	if id.hash != "" {
		pod.Labels[hashLabel] = id.hash
	}
	return pod
}

// pinned returns a pod whose required node affinity allows only one node, so that the scheduler binds it there. It replaces
// the affinity that the template requires, which the node is known to satisfy. All else is shared with the model.
func pinned(model *corev1.Pod, node string) *corev1.Pod {
	pod := *model
	var affinity corev1.Affinity
	if a := model.Spec.Affinity; a != nil {
		affinity = *a
	}
	var nodes corev1.NodeAffinity
	if n := affinity.NodeAffinity; n != nil {
		nodes = *n
	}
	nodes.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		}},
	}}}
	affinity.NodeAffinity = &nodes
	pod.Spec.Affinity = &affinity
	return &pod
}

// nodeOf returns the node that a pod is bound or pinned to; empty if it is neither, or pinned to several.
func nodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for i := range term.MatchFields {
			if f := &term.MatchFields[i]; f.Key == metav1.ObjectNameField && f.Operator == corev1.NodeSelectorOpIn {
				if len(f.Values) != 1 {
					return ""
				}
				return f.Values[0]
			}
		}
	}
	return ""
}
