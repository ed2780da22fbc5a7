package admission

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery/api/nodes/v1alpha1"
)

// World is what is known of other objects. What is nil is not known, and nothing is concluded from it.
type World struct {
	// Pools are all pools, the one in question too if it is there already.
	Pools []*v1alpha1.NodePool
	// NodeLabels yields the labels of each node.
	NodeLabels iter.Seq[map[string]string]
	// RuntimeClassOwner returns the UID of the controlling owner of a RuntimeClass, empty if it has none, and whether
	// there is one of that name.
	RuntimeClassOwner func(name string) (owner types.UID, exists bool)
}

// validatePeers refuses a key to which another pool of the same priority gives another value on the same nodes. Which
// one would win is then a matter of age, which nobody has chosen. A clash that was there before the change, as when nodes
// have been labelled since, does not hold up another change.
func validatePeers(old, p *v1alpha1.NodePool, w World) (errs field.ErrorList) {
	mine, before := values(p), map[key]value{}
	if old != nil && old.Spec.Priority == p.Spec.Priority && reflect.DeepEqual(old.Selector(), p.Selector()) {
		before = values(old)
	}
	for _, other := range w.Pools {
		if other.Name == p.Name || other.DeletionTimestamp != nil || other.Spec.Priority != p.Spec.Priority {
			continue
		}
		theirs := values(other)
		var clashes []key
		for k, v := range mine {
			has, ok := theirs[k]
			was, had := before[k]
			if ok && has.text != v.text && !(had && was.text == v.text) {
				clashes = append(clashes, k)
			}
		}
		if len(clashes) == 0 || !overlap(p, other, w.NodeLabels) {
			continue
		}
		slices.SortFunc(clashes, func(a, b key) int { return mine[a].order - mine[b].order })
		for _, k := range clashes {
			errs = append(errs, field.Invalid(mine[k].path, mine[k].text, fmt.Sprintf(
				"NodePool %s sets it to %q on nodes of both, with the same priority %d; agree on a value, or give one of them a higher spec.priority", other.Name, theirs[k].text, p.Spec.Priority)))
		}
	}
	return errs
}

// key is what two pools can both set.
type key struct{ kind, name string }

type value struct {
	text  string
	path  *field.Path
	order int
}

func values(p *v1alpha1.NodePool) map[key]value {
	out := map[key]value{}
	put := func(k key, text string, path *field.Path) { out[k] = value{text, path, len(out)} }
	for _, k := range slices.Sorted(maps.Keys(p.Spec.Labels)) {
		put(key{"label", k}, string(p.Spec.Labels[k]), spec.Child("labels").Key(k))
	}
	for _, k := range slices.Sorted(maps.Keys(p.Spec.Annotations)) {
		put(key{"annotation", k}, string(p.Spec.Annotations[k]), spec.Child("annotations").Key(k))
	}
	for i, t := range p.Spec.Taints {
		if t.Propagation != v1alpha1.PropagateOnJoin {
			put(key{"taint", t.Key + ":" + string(t.Effect)}, t.Value, spec.Child("taints").Index(i).Child("value"))
		}
	}
	return out
}

// overlap reports whether two pools select alike, or meet on a node that there is.
func overlap(a, b *v1alpha1.NodePool, nodes iter.Seq[map[string]string]) bool {
	if reflect.DeepEqual(a.Selector(), b.Selector()) {
		return true
	}
	sa, erra := metav1.LabelSelectorAsSelector(a.Selector())
	sb, errb := metav1.LabelSelectorAsSelector(b.Selector())
	if erra != nil || errb != nil || nodes == nil {
		return false
	}
	for l := range nodes {
		if sa.Matches(labels.Set(l)) && sb.Matches(labels.Set(l)) {
			return true
		}
	}
	return false
}

// controlPlane is the label of control-plane nodes.
const controlPlane = v1alpha1.NodeRolePrefix + "control-plane"

// Warnings returns what is allowed and may not be meant: taints that drive pods off, and selectors that match all nodes,
// control-plane nodes or none. old is nil for a new pool. A warning is given for what is new, not again with each change.
func Warnings(old, p *v1alpha1.NodePool, w World) (out []string) {
	if p.DeletionTimestamp != nil {
		return nil
	}
	for i, t := range p.Spec.Taints {
		if t.Effect == v1alpha1.NoExecute && (old == nil || !slices.ContainsFunc(old.Spec.Taints, func(o v1alpha1.Taint) bool { return o.Key == t.Key && o.Effect == t.Effect })) {
			out = append(out, fmt.Sprintf("spec.taints[%d]: %s:NoExecute drives the pods off the nodes that do not tolerate it", i, t.Key))
		}
	}
	if w.NodeLabels == nil || old != nil && reflect.DeepEqual(old.Selector(), p.Selector()) {
		return out
	}
	s, err := metav1.LabelSelectorAsSelector(p.Selector())
	if err != nil {
		return out
	}
	all, matched, leading := 0, 0, 0
	for l := range w.NodeLabels {
		all++
		if !s.Matches(labels.Set(l)) {
			continue
		}
		matched++
		if _, ok := l[controlPlane]; ok {
			leading++
		}
	}
	switch {
	case matched == 0:
		out = append(out, "spec.nodeSelector: matches no node now")
	case matched == all && all > 1:
		out = append(out, fmt.Sprintf("spec.nodeSelector: matches all %d nodes", all))
	}
	if leading > 0 {
		out = append(out, fmt.Sprintf("spec.nodeSelector: matches %d control-plane nodes", leading))
	}
	return out
}
