package record

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/api/nodes/v1alpha1"
	"orrery/api/nodes/v1alpha1/admission"
)

// Kind says which part of a Node a key belongs to.
type Kind string

// The kinds of keys.
const (
	Label      Kind = "label"
	Annotation Kind = "annotation"
	Taint      Kind = "taint"
)

// Key identifies a label, annotation or taint of a Node. Each is owned by at most one pool at a time.
type Key struct {
	Kind Kind
	Name string
	// Effect of a taint: taints of one key and different effects are different keys.
	Effect corev1.TaintEffect
}

// String returns the key for messages: "label team", "taint gpu:NoSchedule".
func (k Key) String() string {
	if k.Kind == Taint {
		return fmt.Sprintf("%s %s:%s", k.Kind, k.Name, k.Effect)
	}
	return fmt.Sprintf("%s %s", k.Kind, k.Name)
}

// Compare orders keys by kind, name and effect.
func Compare(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Effect, b.Effect))
}

// TaintKey returns the key of a taint.
func TaintKey(t corev1.Taint) Key { return Key{Kind: Taint, Name: t.Key, Effect: t.Effect} }

// taintText and parseTaint convert the key of a taint to and from its form in a record. It contains only one colon.
func taintText(k Key) string { return k.Name + ":" + string(k.Effect) }

func parseTaint(s string) (Key, bool) {
	name, effect, ok := strings.Cut(s, ":")
	return Key{Kind: Taint, Name: name, Effect: corev1.TaintEffect(effect)}, ok && name != "" && effect != ""
}

// ownable reports whether a pool may write the key. A record with any other key was forged, by somebody who wants the
// controller to change labels or taints of the cluster on their behalf.
func (k Key) ownable() bool {
	if role, is := strings.CutPrefix(k.Name, v1alpha1.NodeRolePrefix); is && k.Kind == Label {
		return role != "control-plane" && role != "master"
	}
	return !admission.Reserved(k.Name)
}

// Value is what a Node has under a key.
type Value struct {
	Text string
	// Added is when a taint was added, if the node says so.
	Added *metav1.Time
}
