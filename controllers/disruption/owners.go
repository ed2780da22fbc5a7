package disruption

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery/kit"
)

// owners looks up the scale of the built-in owners of pods in the cache.
type owners struct {
	replicaSet            func(kit.Key) (*appsv1.ReplicaSet, bool)
	deployment            func(kit.Key) (*appsv1.Deployment, bool)
	statefulSet           func(kit.Key) (*appsv1.StatefulSet, bool)
	replicationController func(kit.Key) (*corev1.ReplicationController, bool)
}

func newOwners(cc kit.ControllerContext) owners {
	return owners{
		replicaSet:            kit.Store[appsv1.ReplicaSet](cc).Get,
		deployment:            kit.Store[appsv1.Deployment](cc).Get,
		statefulSet:           kit.Store[appsv1.StatefulSet](cc).Get,
		replicationController: kit.Store[corev1.ReplicationController](cc).Get,
	}
}

// kindDeployment is the kind of a Deployment in owner references.
const kindDeployment = "Deployment"

// scale returns the object that determines the number of pods, which is not always the pod's controller, and that number.
// ok is false if the object is not of a built-in kind, or not in the cache; then its scale subresource must be read.
func (o owners) scale(namespace string, ref *metav1.OwnerReference) (uid types.UID, replicas int32, ok bool) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return "", 0, false
	}
	key := kit.Key{Namespace: namespace, Name: ref.Name}
	switch (schema.GroupKind{Group: gv.Group, Kind: ref.Kind}) {
	case schema.GroupKind{Kind: "ReplicationController"}:
		if rc, found := o.replicationController(key); found && rc.UID == ref.UID {
			return rc.UID, number(rc.Spec.Replicas), true
		}
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		if set, found := o.statefulSet(key); found && set.UID == ref.UID {
			return set.UID, number(set.Spec.Replicas), true
		}
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, schema.GroupKind{Group: "extensions", Kind: "ReplicaSet"}:
		if set, found := o.replicaSet(key); found && set.UID == ref.UID {
			return o.scaleOfSet(set)
		}
	}
	return "", 0, false
}

// scaleOfSet returns the scale of a ReplicaSet's Deployment, or of the ReplicaSet itself if it has none.
func (o owners) scaleOfSet(set *appsv1.ReplicaSet) (uid types.UID, replicas int32, ok bool) {
	ref := metav1.GetControllerOfNoCopy(set)
	if ref == nil || ref.Kind != kindDeployment {
		return set.UID, number(set.Spec.Replicas), true
	}
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || gv.Group != "apps" && gv.Group != "extensions" {
		return "", 0, false
	}
	d, found := o.deployment(kit.Key{Namespace: set.Namespace, Name: ref.Name})
	if !found || d.UID != ref.UID {
		return "", 0, false
	}
	return d.UID, number(d.Spec.Replicas), true
}

// number reads spec.replicas; nil is 1, which is the server's default.
func number(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// owner is an owner of pods whose scale must be read from the server.
type owner struct {
	kind      schema.GroupVersionKind
	namespace string
	name      string
	uid       types.UID
}

func ownerFrom(namespace string, ref *metav1.OwnerReference) (owner, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return owner{}, fmt.Errorf("read owner reference: %w", err)
	}
	return owner{kind: gv.WithKind(ref.Kind), namespace: namespace, name: ref.Name, uid: ref.UID}, nil
}

// String returns the owner's name for logs.
func (o owner) String() string {
	return fmt.Sprintf("%s %s/%s", o.kind.GroupKind(), o.namespace, o.name)
}
