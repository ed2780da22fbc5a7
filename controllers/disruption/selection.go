package disruption

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/internal/roster"
	"orrery/kit"
	"orrery/kit/cache"
)

// selection returns what a budget selects; ok is false for a budget without a selector, which selects nothing. An empty
// selector selects all pods of the namespace. Budgets from before selectors were validated may have an invalid one; users
// see the error as it is.
func selection(b *policyv1.PodDisruptionBudget) (sel roster.Selection, ok bool, err error) {
	if b.Spec.Selector == nil {
		return sel, false, nil
	}
	all, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return sel, false, err
	}
	sel = roster.Selection{Key: kit.KeyOf(b), Labels: b.Spec.Selector.MatchLabels}
	if len(b.Spec.Selector.MatchExpressions) > 0 {
		sel.Rest = all
	}
	return sel, true, nil
}

// selections lists what the budgets of a namespace select.
func selections(budgets cache.Store[*policyv1.PodDisruptionBudget]) func(namespace string) []roster.Selection {
	return func(namespace string) []roster.Selection {
		var out []roster.Selection
		for _, b := range budgets.List(namespace) {
			if sel, ok, err := selection(b); ok && err == nil {
				out = append(out, sel)
			}
		}
		return out
	}
}
