package daemonset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/internal/claim"
	"orrery/controllers/internal/index"
	"orrery/controllers/internal/podctl"
	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

// bySelector indexes DaemonSets by a label that their selector requires.
func bySelector() cache.Index[*appsv1.DaemonSet] {
	return cache.Index[*appsv1.DaemonSet]{Name: "selector", Keys: func(set *appsv1.DaemonSet) []string {
		return index.SelectorKeys(set.Namespace, set.Spec.Selector)
	}}
}

// matters reports whether a change of a pod can affect what its DaemonSet does or its status. A starting pod changes many
// times; without this filter each change would reconcile the DaemonSet with all its pods.
func matters(old, new *corev1.Pod) bool {
	return podctl.Matters(old, new) || old.Spec.NodeName != new.Spec.NodeName
}

// adopters returns a function that finds the DaemonSets which may adopt an object that was created without a controller,
// lost its controller, or had its labels changed while it had none.
func adopters[P interface {
	comparable
	client.Object
}](sets cache.Store[*appsv1.DaemonSet]) func(old, new P) []kit.Key {
	selector := func(set *appsv1.DaemonSet) *metav1.LabelSelector { return set.Spec.Selector }
	return func(old, new P) []kit.Key {
		if !claim.Orphaned(old, new) {
			return nil
		}
		var keys []kit.Key
		for _, set := range index.Matching(sets, bySelector(), selector, new.GetNamespace(), new.GetLabels()) {
			keys = append(keys, kit.KeyOf(set))
		}
		return keys
	}
}
