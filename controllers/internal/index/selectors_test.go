package index

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnOwnerIsFoundFromLabelsThatItsSelectorMayMatch(t *testing.T) {
	labels := map[string]string{"app": "web", "tier": "front"}
	exists := []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}
	for name, c := range map[string]struct {
		selector *metav1.LabelSelector
		found    bool
	}{
		"one label":        {&metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, true},
		"all labels":       {&metav1.LabelSelector{MatchLabels: labels}, true},
		"another value":    {&metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, false},
		"another key":      {&metav1.LabelSelector{MatchLabels: map[string]string{"name": "web"}}, false},
		"expressions only": {&metav1.LabelSelector{MatchExpressions: exists}, true},
		"empty":            {&metav1.LabelSelector{}, false},
		"none":             {nil, false},
	} {
		keys := SelectorKeys("ns", c.selector)
		if len(keys) > 1 {
			t.Errorf("%s: filed under %v, want one value at most", name, keys)
		}
		look := func(namespace string) bool {
			return slices.ContainsFunc(LabelKeys(namespace, labels), func(k string) bool { return slices.Contains(keys, k) })
		}
		if look("ns") != c.found {
			t.Errorf("%s: found %v, want %v", name, look("ns"), c.found)
		}
		if look("other") {
			t.Errorf("%s: found from another namespace", name)
		}
	}
}
