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

// Kind is what of a Node a key stands for.
type Kind string

// The kinds of keys.
const (
	Label      Kind = "label"
	Annotation Kind = "annotation"
	Taint      Kind = "taint"
)

// Key is what one pool at a time can own on a Node.
type Key struct {
	Kind Kind
	Name string
	// Effect of a taint: taints of one key and different effects are different keys.
	Effect corev1.TaintEffect
}

// String returns the key as people read it: "label team", "taint gpu:NoSchedule".
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

// taintText and parseTaint are the form of a taint's key in a record. A taint's key holds no colon.
func taintText(k Key) string { return k.Name + ":" + string(k.Effect) }

func parseTaint(s string) (Key, bool) {
	name, effect, ok := strings.Cut(s, ":")
	return Key{Kind: Taint, Name: name, Effect: corev1.TaintEffect(effect)}, ok && name != "" && effect != ""
}

// ownable reports whether a pool may write the key. A record that says otherwise was not written by this controller: whoever
// wrote it would have the cluster's own labels and taints changed in the controller's name.
func (k Key) ownable() bool {
	if role, is := strings.CutPrefix(k.Name, v1alpha1.NodeRolePrefix); is && k.Kind == Label {
		return role != "control-plane" && role != "master"
	}
	return !admission.Reserved(k.Name)
}

// Value is what a Node has under a key.
type Value struct {
	Text string
	// Added is when a taint was added, where the node says so.
	Added *metav1.Time
}
