package nodepool

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/api/nodes/v1alpha1"
	"orrery/controllers/nodepool/record"
	"orrery/kit"
)

// nodeChanged passes changes of what pools write and select by, and drops heartbeats.
func nodeChanged(old, new *corev1.Node) bool {
	if old == nil || new == nil {
		return true
	}
	return !maps.Equal(old.Labels, new.Labels) || !maps.Equal(old.Annotations, new.Annotations) || old.UID != new.UID ||
		!slices.EqualFunc(old.Spec.Taints, new.Spec.Taints, func(a, b corev1.Taint) bool { return record.TaintKey(a) == record.TaintKey(b) && a.Value == b.Value })
}

// countChanged passes changes that the status of a pool depends on.
func countChanged(old, new *corev1.Node) bool {
	if nodeChanged(old, new) {
		return true
	}
	wasReady, since := readiness(old)
	isReady, now := readiness(new)
	return wasReady != isReady || !since.Equal(now) || !equality.Semantic.DeepEqual(old.Status.Capacity, new.Status.Capacity) ||
		!equality.Semantic.DeepEqual(old.Status.Allocatable, new.Status.Allocatable)
}

// poolsOf returns the pools that a node belongs to or has a record of.
func (r *reconciler) poolsOf(node *corev1.Node) []kit.Key {
	pools, _ := r.catalog.pools()
	var out []kit.Key
	for _, p := range pools {
		if p.Matches(node.Labels) {
			out = append(out, kit.Key{Name: p.Name})
		}
	}
	if rec, err := recordOf(node); err == nil {
		for _, p := range rec.Pools {
			out = append(out, kit.Key{Name: p.Name})
		}
	}
	return out
}

// poolsOfClass returns the pools that own a RuntimeClass or want one with its name.
func (r *reconciler) poolsOfClass(rc *nodev1.RuntimeClass) []kit.Key {
	var out []kit.Key
	for _, name := range r.catalog.withRuntimeClass(rc.Name) {
		out = append(out, kit.Key{Name: name})
	}
	if ref := metav1.GetControllerOfNoCopy(rc); ref != nil && ref.Kind == v1alpha1.NodePoolKind.Kind {
		out = append(out, kit.Key{Name: ref.Name})
	}
	return out
}

// parseTaint parses a taint in the form key:effect or key=value:effect; nil if the text is empty. The value does not
// matter: a node has at most one taint with the same key and effect.
func parseTaint(text string) (*corev1.Taint, error) {
	if text == "" {
		return nil, nil
	}
	key, effect, ok := strings.Cut(text, ":")
	key, _, _ = strings.Cut(key, "=")
	t := &corev1.Taint{Key: key, Effect: corev1.TaintEffect(effect)}
	if !ok || key == "" || !slices.Contains([]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}, t.Effect) {
		return nil, errors.New("must be key:effect with an effect of NoSchedule, PreferNoSchedule or NoExecute, got " + text)
	}
	return t, nil
}

func compareTolerations(a, b corev1.Toleration) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Effect, b.Effect))
}
