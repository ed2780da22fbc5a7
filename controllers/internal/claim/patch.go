package claim

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery/kit/client"
)

// The shapes below are strategic merge patches of an object's metadata. The server merges ownerReferences by UID and
// finalizers by value. The object's own UID is in each as a precondition: it cannot change, so the patch is invalid for
// any other object.

type adoptPatch struct {
	Metadata struct {
		UID        types.UID               `json:"uid"`
		Owners     []metav1.OwnerReference `json:"ownerReferences"`
		Finalizers []string                `json:"finalizers,omitempty"`
	} `json:"metadata"`
}

type releasePatch struct {
	Metadata struct {
		UID        types.UID    `json:"uid"`
		Owners     []goingOwner `json:"ownerReferences"`
		Finalizers []string     `json:"$deleteFromPrimitiveList/finalizers,omitempty"`
	} `json:"metadata"`
}

type goingOwner struct {
	Directive string    `json:"$patch"`
	UID       types.UID `json:"uid"`
}

func adoption(owner metav1.Object, kind schema.GroupVersionKind, uid types.UID, finalizers []string) client.Patch {
	var p adoptPatch
	p.Metadata.UID = uid
	p.Metadata.Owners = []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)}
	p.Metadata.Finalizers = finalizers
	return client.StrategicPatch(encode(p))
}

// Release returns the patch that takes an owner, and the finalizers if any, from the object with the first UID.
func Release(object, owner types.UID, finalizers ...string) client.Patch {
	var p releasePatch
	p.Metadata.UID = object
	p.Metadata.Owners = []goingOwner{{Directive: "delete", UID: owner}}
	p.Metadata.Finalizers = finalizers
	return client.StrategicPatch(encode(p))
}

// encode cannot fail: the shapes hold strings, booleans and slices of them.
func encode(p any) []byte {
	data, err := json.Marshal(p)
	if err != nil {
		return nil
	}
	return data
}
