package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"orrery/controllers/internal/claim"
	"orrery/controllers/internal/podctl"
	"orrery/kit"
	"orrery/kit/cache"
)

// matters reports whether a change of a pod can change what its set has to do or say.
func matters(old, new *corev1.Pod) bool {
	return podctl.Matters(old, new) || old.Status.Phase != new.Status.Phase
}

// namesakes files pods that nobody controls under the set that their name points to, so that a set need not look at all
// such pods of its namespace.
func namesakes() cache.Index[*corev1.Pod] {
	return cache.Index[*corev1.Pod]{Name: "statefulset-namesakes", Keys: func(pod *corev1.Pod) []string {
		if podctl.ControllerOf(pod) != "" {
			return nil
		}
		owner, _, ok := parent(pod.Name)
		if !ok {
			return nil
		}
		return []string{namesake(pod.Namespace, owner)}
	}}
}

func namesake(namespace, set string) string { return namespace + "/" + set }

// watches finds the sets that changes of objects of others concern.
type watches struct {
	sets cache.Store[*appsv1.StatefulSet]
}

// ofNamesakes returns the set that the name of a changed pod points to, if it does not own the pod: the set may adopt the
// pod, or create its own once the name is free. Going by the name saves a search through all selectors.
func (w watches) ofNamesakes(old, new *corev1.Pod) []kit.Key {
	pod := new
	if pod == nil {
		pod = old
	}
	name, _, ok := parent(pod.Name)
	if !ok {
		return nil
	}
	if new != nil && !claim.Orphaned(old, new) {
		return nil
	}
	set, ok := w.sets.Get(kit.Key{Namespace: pod.Namespace, Name: name})
	if !ok || podctl.ControllerOf(pod) == set.UID {
		return nil
	}
	if new != nil {
		selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(new.Labels)) {
			return nil
		}
	}
	return []kit.Key{kit.KeyOf(set)}
}

// waiting returns the sets that may have waited for a claim to be deleted, or for an owner to release it. Their pods have
// not been created or not been started, so no event of a pod would wake them.
func (w watches) waiting(old, new *corev1.PersistentVolumeClaim) (keys []kit.Key) {
	if old == nil || new != nil && len(new.OwnerReferences) >= len(old.OwnerReferences) {
		return nil
	}
	rest, _, ok := parent(old.Name)
	if !ok {
		return nil
	}
	// The names of the template and of the set may both have dashes in them.
	for at := range len(rest) {
		if rest[at] != '-' {
			continue
		}
		set, ok := w.sets.Get(kit.Key{Namespace: old.Namespace, Name: rest[at+1:]})
		if ok && hasTemplate(set, rest[:at]) {
			keys = append(keys, kit.KeyOf(set))
		}
	}
	return keys
}
