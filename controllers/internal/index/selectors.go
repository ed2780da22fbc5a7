package index

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"orrery/kit/cache"
	"orrery/kit/client"
)

// Objects with a label selector can be found from labels without trying each selector of the namespace: the owner is
// filed under one label that its selector requires, and looked for under each label of the object. What is found that
// way may match, and nothing else can.

// SelectorKeys returns the values under which to file an owner with this selector: one, or none if the selector selects
// nothing or everything.
func SelectorKeys(namespace string, s *metav1.LabelSelector) []string {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return nil
	}
	// The greatest key, so that the same selector is always filed alike.
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

// LabelKeys returns the values under which the owners are filed whose selectors may match an object with these labels.
func LabelKeys(namespace string, labels map[string]string) []string {
	keys := make([]string, 0, len(labels)+1)
	for k, v := range labels {
		keys = append(keys, pair(namespace, k, v))
	}
	return append(keys, expressionsOnly(namespace))
}

func pair(namespace, key, value string) string { return namespace + "/" + key + "=" + value }

// expressionsOnly is where selectors without matchLabels are filed; no label key is empty.
func expressionsOnly(namespace string) string { return pair(namespace, "", "") }

// Matching returns the owners whose selectors match an object of these labels in a namespace. bySelector is the index
// that files the owners under their SelectorKeys, and selector says where an owner keeps its selector.
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
