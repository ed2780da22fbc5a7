package graph

import (
	"cmp"
	"fmt"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Kind is a group, version and kind in the size of a pointer: a cluster has many objects of few kinds.
type Kind struct {
	gvk unique.Handle[schema.GroupVersionKind]
}

// KindOf returns the compact form of a kind.
func KindOf(gvk schema.GroupVersionKind) Kind { return Kind{unique.Make(gvk)} }

// GVK returns the kind in its usual form.
func (k Kind) GVK() schema.GroupVersionKind { return k.gvk.Value() }

// Ref names one object the way an owner reference does, with the namespace that a reference leaves out. Namespace is
// empty for cluster scope.
type Ref struct {
	Kind      Kind
	Namespace string
	Name      string
	UID       types.UID
}

// RefOf returns the name of an object.
func RefOf(kind Kind, obj metav1.Object) Ref {
	return Ref{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID()}
}

// RefTo returns the name of the owner that a reference means, if the owner is in that namespace.
func RefTo(o metav1.OwnerReference, namespace string) Ref {
	return Ref{
		Kind:      KindOf(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)),
		Namespace: namespace, Name: o.Name, UID: o.UID,
	}
}

// APIVersion returns group and version as objects carry it.
func (r Ref) APIVersion() string { return r.Kind.GVK().GroupVersion().String() }

// String returns the form that events and logs show.
func (r Ref) String() string {
	gvk := r.Kind.GVK()
	return fmt.Sprintf("[%s/%s, namespace: %s, name: %s, uid: %s]", gvk.GroupVersion(), gvk.Kind, r.Namespace, r.Name, r.UID)
}

// compare orders names of one UID: kinds first, so that those of one kind stand together.
func (r Ref) compare(o Ref) int {
	a, b := r.Kind.GVK(), o.Kind.GVK()
	return cmp.Or(
		strings.Compare(a.Kind, b.Kind),
		strings.Compare(a.GroupVersion().String(), b.GroupVersion().String()),
		strings.Compare(r.Namespace, o.Namespace),
		strings.Compare(r.Name, o.Name),
	)
}
