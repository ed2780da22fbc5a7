package namespace

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// good returns the conditions for when nothing is wrong, in the order in which they are written.
func good() []corev1.NamespaceCondition {
	return []corev1.NamespaceCondition{
		{Type: corev1.NamespaceDeletionDiscoveryFailure, Reason: "ResourcesDiscovered", Message: "All resources successfully discovered"},
		{Type: corev1.NamespaceDeletionGVParsingFailure, Reason: "ParsedGroupVersions", Message: "All legacy kube types successfully parsed"},
		{Type: corev1.NamespaceDeletionContentFailure, Reason: "ContentDeleted", Message: "All content successfully deleted, may be waiting on finalization"},
		{Type: corev1.NamespaceContentRemaining, Reason: "ContentRemoved", Message: "All content successfully removed"},
		{Type: corev1.NamespaceFinalizersRemaining, Reason: "ContentHasNoFinalizers", Message: "All content-preserving finalizers finished"},
	}
}

// conditions returns the conditions after a pass. One that ended with the pods does not know what remains.
func (p *pass) conditions() []corev1.NamespaceCondition {
	out := good()
	for i := range out {
		out[i].Status = corev1.ConditionFalse
	}
	bad := func(t corev1.NamespaceConditionType, reason, message string) {
		i := slices.IndexFunc(out, func(c corev1.NamespaceCondition) bool { return c.Type == t })
		out[i].Status, out[i].Reason, out[i].Message = corev1.ConditionTrue, reason, message
	}
	if err := p.found.failed; err != nil {
		bad(corev1.NamespaceDeletionDiscoveryFailure, "DiscoveryFailed", failureText(err))
	}
	if err := p.found.unparsed; err != nil {
		bad(corev1.NamespaceDeletionGVParsingFailure, "GroupVersionParsingFailed", err.Error())
	}
	if n := len(p.failures); n > 0 {
		texts := make([]string, n)
		for i, err := range p.failures {
			texts[i] = err.Error()
		}
		slices.Sort(texts)
		bad(corev1.NamespaceDeletionContentFailure, "ContentDeletionFailed",
			fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", n, strings.Join(texts, ", ")))
	}
	if p.podsOnly {
		return out
	}
	if len(p.left) > 0 {
		bad(corev1.NamespaceContentRemaining, "SomeResourcesRemain", "Some resources are remaining: "+p.leftText())
	}
	if len(p.finalizers) > 0 {
		bad(corev1.NamespaceFinalizersRemaining, "SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "+p.finalizersText())
	}
	return out
}

func (p *pass) leftText() string {
	var lines []string
	for gvr, n := range p.left {
		lines = append(lines, fmt.Sprintf("%s.%s has %d resource instances", gvr.Resource, gvr.Group, n))
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

func (p *pass) finalizersText() string {
	var lines []string
	for f, n := range p.finalizers {
		lines = append(lines, fmt.Sprintf("%s in %d resource instances", f, n))
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

// setConditions brings the status up to the wanted conditions and reports whether anything changed. The time of a
// condition is that of its last change of status.
func setConditions(s *corev1.NamespaceStatus, want []corev1.NamespaceCondition, now metav1.Time) (changed bool) {
	for _, c := range want {
		i := slices.IndexFunc(s.Conditions, func(o corev1.NamespaceCondition) bool { return o.Type == c.Type })
		if i < 0 {
			c.LastTransitionTime = now
			s.Conditions = append(s.Conditions, c)
			changed = true
			continue
		}
		old := &s.Conditions[i]
		if old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
			continue
		}
		c.LastTransitionTime = old.LastTransitionTime
		if old.Status != c.Status {
			c.LastTransitionTime = now
		}
		*old, changed = c, true
	}
	return changed
}
