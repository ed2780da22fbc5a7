package index

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/kit/cache"
	"orrery/kit/client"
)

// ByController indexes objects by the UID of their controller.
func ByController[P client.Object]() cache.Index[P] {
	return cache.Index[P]{Name: "controller", Keys: func(o P) []string {
		if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
			return []string{string(ref.UID)}
		}
		return nil
	}}
}

// Owned returns the objects that an owner controls, using ByController or an index with the same keys.
func Owned[P client.Object](objs cache.Store[P], byOwner cache.Index[P], owner metav1.Object) []P {
	return OwnedIn(objs, byOwner, owner.GetUID(), owner.GetNamespace())
}

// OwnedIn returns the objects that the owner with this UID and namespace controls. References from other namespaces are
// ignored: anyone who may create objects there can write any reference.
func OwnedIn[P client.Object](objs cache.Store[P], byOwner cache.Index[P], owner types.UID, namespace string) []P {
	return slices.DeleteFunc(objs.By(byOwner, string(owner)), func(o P) bool { return o.GetNamespace() != namespace })
}

// PodsOf returns the pods that an owner of this kind controls. As in upstream, a reference must have the owner's kind and
// name as well as its UID; pods with any other reference are left to the garbage collector.
func PodsOf(pods cache.Store[*corev1.Pod], byOwner cache.Index[*corev1.Pod], owner metav1.Object, kind string) []*corev1.Pod {
	return slices.DeleteFunc(Owned(pods, byOwner, owner), func(pod *corev1.Pod) bool {
		ref := metav1.GetControllerOfNoCopy(pod)
		return ref == nil || ref.Kind != kind || ref.Name != owner.GetName()
	})
}

// Orphans indexes objects without a controller by their namespace.
func Orphans[P client.Object]() cache.Index[P] {
	return cache.Index[P]{Name: "orphans", Keys: func(o P) []string {
		if metav1.GetControllerOfNoCopy(o) != nil {
			return nil
		}
		return []string{o.GetNamespace()}
	}}
}
