package garbagecollector

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/controllers/garbagecollector/graph"
	"orrery/kit/client"
)

// edit is a change of an object's owner references, in the two forms in which it can be sent.
type edit struct {
	// merged returns all references as they should be, for a merge patch.
	merged func([]metav1.OwnerReference) []metav1.OwnerReference
	// strategic returns the changed references, for a strategic merge patch, which matches them by UID.
	strategic func([]metav1.OwnerReference) []any
}

// without removes the references to some owners.
func without(uids []types.UID) edit {
	return edit{
		merged: func(refs []metav1.OwnerReference) []metav1.OwnerReference {
			return slices.DeleteFunc(slices.Clone(refs), func(r metav1.OwnerReference) bool { return slices.Contains(uids, r.UID) })
		},
		strategic: func([]metav1.OwnerReference) []any {
			out := make([]any, len(uids))
			for i, uid := range uids {
				out[i] = map[string]any{"$patch": "delete", "uid": uid}
			}
			return out
		},
	}
}

// unblocking makes the object block the deletion of none of its owners.
func unblocking() edit {
	return edit{
		merged: func(refs []metav1.OwnerReference) []metav1.OwnerReference {
			out := slices.Clone(refs)
			for i := range out {
				if b := out[i].BlockOwnerDeletion; b != nil && *b {
					out[i].BlockOwnerDeletion = new(bool)
				}
			}
			return out
		},
		strategic: func(refs []metav1.OwnerReference) []any {
			var out []any
			for _, r := range refs {
				if b := r.BlockOwnerDeletion; b != nil && *b {
					r.BlockOwnerDeletion = new(bool)
					out = append(out, r)
				}
			}
			return out
		},
	}
}

// patchOwners changes an object's owner references.
func (r *reconciler) patchOwners(ctx context.Context, ref graph.Ref, obj metav1.Object, e edit) error {
	_, err := r.sendOwners(ctx, ref, obj, e)
	return err
}

// sendOwners changes an object's owner references and returns the object. For built-in kinds, the change applies whatever
// else has changed in the object; for other kinds, the object must still have the version that the change was made from.
// Either way it must have the same UID.
func (r *reconciler) sendOwners(ctx context.Context, ref graph.Ref, obj metav1.Object, e edit) (*metav1.PartialObjectMetadata, error) {
	refs := obj.GetOwnerReferences()
	if r.api.Strategic(ref.Kind) {
		out, err := r.api.Patch(ctx, ref, client.StrategicPatch(metadataPatch(map[string]any{
			"uid": ref.UID, "ownerReferences": e.strategic(refs),
		})))
		if !apierrors.IsUnsupportedMediaType(err) {
			return out, r.explain("patch owner references of", ref, err)
		}
	}
	out, err := r.api.Patch(ctx, ref, client.MergePatch(metadataPatch(map[string]any{
		"uid": ref.UID, "resourceVersion": obj.GetResourceVersion(), "ownerReferences": e.merged(refs),
	})))
	return out, r.explain("patch owner references of", ref, err)
}

func finalizersPatch(obj metav1.Object, finalizers []string) []byte {
	return metadataPatch(map[string]any{
		"uid": obj.GetUID(), "resourceVersion": obj.GetResourceVersion(), "finalizers": finalizers,
	})
}

// metadataPatch returns the JSON of a patch of metadata fields.
func metadataPatch(fields map[string]any) []byte {
	data, _ := json.Marshal(map[string]any{"metadata": fields}) // cannot fail
	return data
}

// notAbsent returns nil for an absentError, and any other error as it is.
func notAbsent(err error) error {
	var gone absentError
	if errors.As(err, &gone) {
		return nil
	}
	return err
}
