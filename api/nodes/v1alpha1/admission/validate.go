package admission

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery/api/nodes/v1alpha1"
)

var spec = field.NewPath("spec")

// Validate returns what is wrong with a pool: by itself, as a change of old, which is nil for a new pool, and beside
// what else there is. A pool that is being deleted, or whose spec does not change, always passes: whoever writes its
// finalizers or metadata is not to be held up by what others have done.
func Validate(old, p *v1alpha1.NodePool, w World) field.ErrorList {
	if p.DeletionTimestamp != nil || old != nil && reflect.DeepEqual(old.Spec, p.Spec) {
		return nil
	}
	var errs field.ErrorList
	errs = append(errs, validateName(p)...)
	errs = append(errs, validateSelector(p)...)
	errs = append(errs, validateKeys(p)...)
	errs = append(errs, validateTaints(p)...)
	errs = append(errs, validateRole(p)...)
	errs = append(errs, validateRollout(p)...)
	errs = append(errs, validateRuntimeClass(old, p, w)...)
	if len(errs) == 0 {
		errs = append(errs, validatePeers(old, p, w)...)
	}
	return errs
}

func validateName(p *v1alpha1.NodePool) field.ErrorList {
	if len(p.Name) > validation.LabelValueMaxLength || strings.Contains(p.Name, ".") {
		return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), p.Name, "must have at most 63 characters and no dot, as it is part of a label")}
	}
	return nil
}

// validateSelector refuses selectors that match everything, or that the pool's own writes would change the meaning of.
func validateSelector(p *v1alpha1.NodePool) field.ErrorList {
	path, s := spec.Child("nodeSelector"), p.Spec.NodeSelector
	if s == nil {
		return nil
	}
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return field.ErrorList{field.Invalid(path, "{}", "must not be empty, which would match every node; leave it out for "+v1alpha1.NodeRolePrefix+p.Name+", or say which nodes")}
	}
	errs := metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, path)
	written := func(key string) bool {
		_, set := p.Spec.Labels[key]
		return set || p.Spec.NodeRole != "" && key == v1alpha1.NodeRolePrefix+p.Spec.NodeRole
	}
	const why = "must not be a key that the pool writes: select by a label that somebody else sets, or take it out of spec.labels and spec.nodeRole"
	for _, k := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		if written(k) {
			errs = append(errs, field.Invalid(path.Child("matchLabels").Key(k), k, why))
		}
	}
	for i, e := range s.MatchExpressions {
		if written(e.Key) {
			errs = append(errs, field.Invalid(path.Child("matchExpressions").Index(i).Child("key"), e.Key, why))
		}
	}
	return errs
}

func validateKeys(p *v1alpha1.NodePool) (errs field.ErrorList) {
	const most = 64
	labels, annotations := spec.Child("labels"), spec.Child("annotations")
	if n := len(p.Spec.Labels); n > most {
		errs = append(errs, field.TooMany(labels, n, most))
	}
	if n := len(p.Spec.Annotations); n > most {
		errs = append(errs, field.TooMany(annotations, n, most))
	}
	for _, k := range slices.Sorted(maps.Keys(p.Spec.Labels)) {
		errs = append(errs, validateKey(labels.Key(k), k)...)
		for _, msg := range validation.IsValidLabelValue(string(p.Spec.Labels[k])) {
			errs = append(errs, field.Invalid(labels.Key(k), p.Spec.Labels[k], msg))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(p.Spec.Annotations)) {
		errs = append(errs, validateKey(annotations.Key(k), k)...)
	}
	return errs
}

// validateKey refuses keys that are no keys, and those of the cluster and of this operator.
func validateKey(path *field.Path, key string) (errs field.ErrorList) {
	for _, msg := range validation.IsQualifiedName(key) {
		errs = append(errs, field.Invalid(path, key, msg))
	}
	domain, _, _ := strings.Cut(key, "/")
	switch {
	case !Reserved(key):
	case domain == strings.TrimSuffix(v1alpha1.NodeRolePrefix, "/"):
		errs = append(errs, field.Forbidden(path, "roles are the cluster's own; use spec.nodeRole"))
	case within(domain, "orrery.dev"):
		errs = append(errs, field.Forbidden(path, "keys of orrery.dev are this operator's own; use a domain of yours"))
	default:
		errs = append(errs, field.Forbidden(path, "keys of kubernetes.io and k8s.io are the cluster's own, but for node-restriction.kubernetes.io; use a domain of yours"))
	}
	return errs
}

// Reserved reports whether a label, annotation or taint is the cluster's or this operator's own, by its key. The labels of
// node roles are too; spec.nodeRole is the way to write one.
func Reserved(key string) bool {
	domain, _, has := strings.Cut(key, "/")
	return has && !within(domain, "node-restriction.kubernetes.io") &&
		(within(domain, "kubernetes.io") || within(domain, "k8s.io") || within(domain, "orrery.dev"))
}

// within reports whether a domain is another one, or below it.
func within(domain, above string) bool {
	return domain == above || strings.HasSuffix(domain, "."+above)
}

func validateTaints(p *v1alpha1.NodePool) (errs field.ErrorList) {
	const most = 32
	path := spec.Child("taints")
	if n := len(p.Spec.Taints); n > most {
		errs = append(errs, field.TooMany(path, n, most))
	}
	seen := map[string]bool{}
	for i, t := range p.Spec.Taints {
		at := path.Index(i)
		errs = append(errs, validateKey(at.Child("key"), t.Key)...)
		for _, msg := range validation.IsValidLabelValue(t.Value) {
			errs = append(errs, field.Invalid(at.Child("value"), t.Value, msg))
		}
		effects := []v1alpha1.TaintEffect{v1alpha1.NoSchedule, v1alpha1.PreferNoSchedule, v1alpha1.NoExecute}
		if !slices.Contains(effects, t.Effect) {
			errs = append(errs, field.NotSupported(at.Child("effect"), t.Effect, effects))
		}
		id := t.Key + ":" + string(t.Effect)
		if seen[id] {
			errs = append(errs, field.Duplicate(at, id))
		}
		seen[id] = true
	}
	return errs
}

func validateRole(p *v1alpha1.NodePool) field.ErrorList {
	path, role := spec.Child("nodeRole"), p.Spec.NodeRole
	switch {
	case role == "":
		return nil
	case role == "control-plane" || role == "master":
		return field.ErrorList{field.Forbidden(path, "the roles of control-plane nodes are the cluster's own; use another name")}
	case p.Spec.NodeSelector == nil && role == p.Name:
		return field.ErrorList{field.Invalid(path, role, "must not be the role that the default spec.nodeSelector selects by; set a nodeSelector of other labels")}
	}
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(v1alpha1.NodeRolePrefix + role) {
		errs = append(errs, field.Invalid(path, role, msg))
	}
	return errs
}

var percentage = regexp.MustCompile(`^([1-9][0-9]?|100)%$`)

func validateRollout(p *v1alpha1.NodePool) (errs field.ErrorList) {
	path, r := spec.Child("rollout"), p.Spec.Rollout
	if m := r.MaxUpdating; m != nil && (m.Type == intstr.Int && m.IntVal < 1 || m.Type == intstr.String && !percentage.MatchString(m.StrVal)) {
		errs = append(errs, field.Invalid(path.Child("maxUpdating"), m.String(), "must be a number of at least 1 or a percentage from 1% to 100%"))
	}
	if n := r.NoExecuteMaxUpdating; n != nil && *n < 1 {
		errs = append(errs, field.Invalid(path.Child("noExecuteMaxUpdating"), *n, "must be at least 1"))
	}
	if r.IntervalSeconds < 0 || r.IntervalSeconds > 3600 {
		errs = append(errs, field.Invalid(path.Child("intervalSeconds"), r.IntervalSeconds, "must be 0 to 3600"))
	}
	return errs
}

// validateRuntimeClass refuses what a RuntimeClass cannot express, changes that it does not take, and names in use.
func validateRuntimeClass(old, p *v1alpha1.NodePool, w World) (errs field.ErrorList) {
	path, rc := spec.Child("runtimeClass"), p.Spec.RuntimeClass
	if rc == nil {
		return nil
	}
	name := p.RuntimeClassName()
	for _, msg := range validation.IsDNS1123Label(rc.Handler) {
		errs = append(errs, field.Invalid(path.Child("handler"), rc.Handler, msg))
	}
	for _, msg := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(path.Child("name"), name, msg))
	}
	if s := p.Spec.NodeSelector; s != nil && len(s.MatchExpressions) > 0 {
		errs = append(errs, field.Invalid(path, name, "a RuntimeClass selects nodes by equal labels only; use matchLabels in spec.nodeSelector"))
	}
	if old != nil && old.Spec.RuntimeClass != nil {
		const fixed = "is immutable; remove spec.runtimeClass first to have another"
		if was := old.RuntimeClassName(); was != name {
			return append(errs, field.Invalid(path.Child("name"), name, fixed))
		}
		if was := old.Spec.RuntimeClass.Handler; was != rc.Handler {
			errs = append(errs, field.Invalid(path.Child("handler"), rc.Handler, fixed))
		}
		return errs
	}
	for _, other := range w.Pools {
		if other.Name != p.Name && other.DeletionTimestamp == nil && other.RuntimeClassName() == name {
			return append(errs, field.Invalid(path.Child("name"), name, fmt.Sprintf("is the RuntimeClass of NodePool %s; choose another name", other.Name)))
		}
	}
	if w.RuntimeClassOwner != nil {
		if owner, exists := w.RuntimeClassOwner(name); exists && (owner == "" || owner != p.UID) {
			errs = append(errs, field.Invalid(path.Child("name"), name, "is in use by a RuntimeClass that is not this pool's; choose another name, or delete it"))
		}
	}
	return errs
}
