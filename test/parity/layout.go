package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// alike are the names of nodes of programs about DaemonSets, $self-<letter><number>. Those of one letter are alike, and a
// controller may take any of them first: all have the same name in comparisons.
var alike = regexp.MustCompile(`(daemonset-\d+-[a-z])\d+\b`)

// onNodes says for each node which pods of DaemonSets it has: what is lost of that if nodes have the same name.
func onNodes[P any](pods []P, see func(P) (node, text string)) map[string]string {
	all := map[string][]string{}
	for _, p := range pods {
		if node, text := see(p); node != "" {
			all[node] = append(all[node], text)
		}
	}
	out := map[string]string{}
	for node, texts := range all {
		out[node] = strings.Join(sorted(texts), "; ")
	}
	return out
}

// daemonPod returns the node of a DaemonSet's pod and what matters of it beside other pods of the node.
func daemonPod(pod *corev1.Pod) (node, text string) {
	if ref := metav1.GetControllerOf(pod); ref == nil || ref.Kind != "DaemonSet" {
		return "", ""
	}
	ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	return cmp.Or(pod.Spec.NodeName, "none"), fmt.Sprint(pod.Labels["controller-revision-hash"], pod.Status.Phase, ready, pod.DeletionTimestamp != nil)
}

// layout is an object for comparison that has the pods of DaemonSets by node; nothing if there are none.
func layout(pods []*unstructured.Unstructured) []string {
	groups := onNodes(pods, func(u *unstructured.Unstructured) (node, text string) {
		if !ownedBy(u, "DaemonSet") {
			return "", ""
		}
		node, _, _ = unstructured.NestedString(u.Object, "spec", "nodeName")
		phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		return cmp.Or(node, "none"), fmt.Sprint(u.GetLabels()["controller-revision-hash"], " ", phase, " going=", u.GetDeletionTimestamp() != nil)
	})
	var lines []string
	for node, text := range groups {
		lines = append(lines, alike.ReplaceAllString(node, "$1*")+": "+text)
	}
	if len(lines) == 0 {
		return nil
	}
	return []string{"kind: Layout\n" + strings.Join(sorted(lines), "\n") + "\n"}
}
