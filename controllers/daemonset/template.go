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
	// generationLabel on pods is how revisions were told apart before there was a hash. The generation is still kept by
	// the server, in an annotation of the DaemonSet.
	generationLabel = "pod-template-generation"
)

// kind names DaemonSets in owner references.
var kind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// edition is what marks the pods of the present template.
type edition struct {
	hash       string
	alike      []string // hashes of other revisions that mean the same
	generation string   // empty if there is none that can be read
}

// generationOf returns the generation of a DaemonSet's template, as pods are labelled with it.
func generationOf(set *appsv1.DaemonSet) string {
	n, err := strconv.ParseInt(set.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// current reports whether a pod was made from the present template.
func (e edition) current(pod *corev1.Pod) bool {
	return e.hashed(pod) || e.generation != "" && pod.Labels[generationLabel] == e.generation
}

// hashed reports whether a pod's hash says that it was made from the present template.
func (e edition) hashed(pod *corev1.Pod) bool {
	hash := pod.Labels[hashLabel]
	return hash != "" && (hash == e.hash || slices.Contains(e.alike, hash))
}

// newPod returns a pod of the present template that is bound to no node yet. It shares nothing with the DaemonSet, and
// is made once for many nodes; see pinned.
func (e edition) newPod(set *appsv1.DaemonSet) *corev1.Pod {
	pod := podctl.FromTemplate(&set.Spec.Template, set, *metav1.NewControllerRef(set, kind))
	pod.Spec.Tolerations = tolerationsOf(&pod.Spec)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	if e.generation != "" {
		pod.Labels[generationLabel] = e.generation
	}
	if e.hash != "" {
		pod.Labels[hashLabel] = e.hash
	}
	return pod
}

// pinned returns the pod for one node. It shares all but its affinity with the one given. The scheduler binds it, as it
// fits no other node; what the template required of nodes has been found to hold for this one.
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

// nodeOf returns the node that a pod is on or pinned to; empty if it is neither, or pinned to several.
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
