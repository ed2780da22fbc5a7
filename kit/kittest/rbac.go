package kittest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// allows reports whether any rule grants the call. Without rules everything is granted.
func allows(rules []rbacv1.PolicyRule, r *Request) bool {
	if rules == nil {
		return true
	}
	return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool { return grants(rule, r) })
}

func grants(rule rbacv1.PolicyRule, r *Request) bool {
	has := func(list []string, wanted ...string) bool {
		return slices.Contains(list, "*") || slices.ContainsFunc(wanted, func(w string) bool { return slices.Contains(list, w) })
	}
	resource := r.Resource.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	named := len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, r.Name)
	return named && has(rule.Verbs, r.Verb) && has(rule.APIGroups, r.Resource.Group) &&
		(has(rule.Resources, resource) || r.Subresource != "" && slices.Contains(rule.Resources, "*/"+r.Subresource))
}

// forbid refuses a call that the role does not grant, and fails the test.
func (a *API) forbid(r *Request) error {
	a.t.Errorf("controller %s may not %s: its RBAC rules do not grant that", r.User, r)
	return apierrors.NewForbidden(r.Resource.GroupResource(), r.Name, fmt.Errorf("no rule grants %s %s", r.Verb, r.Resource.Resource))
}

func parseSelector(raw map[string]any) (labels.Selector, error) {
	if _, ok := raw["matchLabels"]; !ok && raw["matchExpressions"] == nil && len(raw) > 0 {
		flat := labels.Set{} // of a replication controller
		for k, v := range raw {
			flat[k], _ = v.(string)
		}
		return flat.AsSelector(), nil
	}
	var s metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &s); err != nil {
		return nil, err
	}
	return metav1.LabelSelectorAsSelector(&s)
}

func selectorText(raw map[string]any) string {
	s, err := parseSelector(raw)
	if err != nil {
		return ""
	}
	return s.String()
}

func selects(raw map[string]any, set map[string]string) bool {
	s, err := parseSelector(raw)
	return err == nil && s.Matches(labels.Set(set))
}

// splitPath splits the path of a field: "metadata.name".
func splitPath(path string) []string { return strings.Split(path, ".") }

// referenceText names what an ObjectReference points to.
func referenceText(obj runtime.Object) (string, bool) {
	ref, ok := obj.(*corev1.ObjectReference)
	if !ok {
		return "", false
	}
	if ref.Namespace == "" {
		return ref.Kind + " " + ref.Name, true
	}
	return ref.Kind + " " + ref.Namespace + "/" + ref.Name, true
}
