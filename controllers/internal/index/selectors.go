package index

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"orrery/kit/cache"
	"orrery/kit/client"
)

// These indexes find the owners whose selector matches an object without evaluating every selector of the namespace. An
// owner is indexed by one label that its selector requires, and looked up by each label of the object. Only owners found
// that way can match.

// SelectorKeys returns the index values for an owner with this selector: one, or none if the selector selects nothing or
// everything.
func SelectorKeys(namespace string, s *metav1.LabelSelector) []string {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return nil
	}
	// The greatest key, so that the value does not depend on the order of the map.
	var key string
	found := false
	for k := range s.MatchLabels {
		if !found || k > key {
			key, found = k, true
		}
	}
	if !found {
		return []string{expressionsOnly(namespace)}
	}
	return []string{pair(namespace, key, s.MatchLabels[key])}
}

// LabelKeys returns the index values of all owners whose selectors may match an object with these labels.
func LabelKeys(namespace string, labels map[string]string) []string {
	keys := make([]string, 0, len(labels)+1)
	for k, v := range labels {
		keys = append(keys, pair(namespace, k, v))
	}
	return append(keys, expressionsOnly(namespace))
}

func pair(namespace, key, value string) string { return namespace + "/" + key + "=" + value }

// expressionsOnly is the index value for selectors without matchLabels. It is unambiguous, since no label key is empty.
func expressionsOnly(namespace string) string { return pair(namespace, "", "") }

// Matching returns the owners whose selectors match an object with these labels in a namespace. bySelector is the index of
// the owners by SelectorKeys, and selector returns the selector of an owner.
func Matching[P client.Object](owners cache.Store[P], bySelector cache.Index[P], selector func(P) *metav1.LabelSelector, namespace string, has map[string]string) []P {
	var out []P
	for _, value := range LabelKeys(namespace, has) {
		for _, owner := range owners.By(bySelector, value) {
			if s, err := metav1.LabelSelectorAsSelector(selector(owner)); err == nil && s.Matches(labels.Set(has)) {
				out = append(out, owner)
			}
		}
	}
	return out
}
