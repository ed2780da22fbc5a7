package kittest

import (
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"orrery/kit/client"
)

// patch applies a patch of any kind. A server-side apply is treated as a merge patch that creates the object if it is
// missing; field managers are not tracked.
func (w *write) patch(key client.Key, kind types.PatchType, data []byte, subresource string) (*unstructured.Unstructured, error) {
	if kind == types.ApplyYAMLPatchType {
		var err error
		if data, err = yaml.YAMLToJSON(data); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		kind = types.MergePatchType
		if w.r.typed {
			kind = types.StrategicMergePatchType
		}
		if w.table().objects[key] == nil {
			return w.applyNew(key, data)
		}
	}
	cur, err := w.current(key)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(cur.Object)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	after, err := w.patched(before, kind, data)
	if err != nil {
		return nil, err
	}
	next, err := w.api.decodeJSON(w.r, after)
	if err != nil {
		return nil, err
	}
	next.SetName(key.Name)
	next.SetNamespace(key.Namespace)
	if next.GetUID() != cur.GetUID() {
		return nil, invalid(w.r, key.Name, field.Invalid(field.NewPath("metadata", "uid"), next.GetUID(), "field is immutable"))
	}
	return w.update(next, subresource)
}

func (w *write) applyNew(key client.Key, data []byte) (*unstructured.Unstructured, error) {
	o, err := w.api.decodeJSON(w.r, data)
	if err != nil {
		return nil, err
	}
	o.SetName(key.Name)
	o.SetNamespace(key.Namespace)
	return w.create(o)
}

// patched applies a patch to an object's JSON form.
func (w *write) patched(before []byte, kind types.PatchType, data []byte) ([]byte, error) {
	var after []byte
	var err error
	switch kind {
	case types.JSONPatchType:
		var p jsonpatch.Patch
		if p, err = jsonpatch.DecodePatch(data); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		after, err = p.Apply(before)
	case types.MergePatchType:
		after, err = jsonpatch.MergePatch(before, data)
	case types.StrategicMergePatchType:
		example, e := w.api.scheme.New(w.r.gvk)
		if e != nil {
			return nil, apierrors.NewGenericServerResponse(415, "patch", w.r.groupResource(), "", "strategic merge patch of a kind without a Go type", 0, true)
		}
		after, err = strategicpatch.StrategicMergePatch(before, data, example)
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("unknown patch type %q", kind))
	}
	if err != nil {
		e := apierrors.NewGenericServerResponse(422, "patch", w.r.groupResource(), "", err.Error(), 0, true)
		return nil, e
	}
	return after, nil
}
