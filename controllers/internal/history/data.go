package history

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/klog/v2"
)

// Encode returns the data of a revision of a template: the strategic merge patch {"spec":{"template":T}} that makes it
// the template of an owner again, where T is the template as JSON with "$patch":"replace" in it. Keys are sorted at all
// depths and all numbers are read as floating-point ones before they are written, which is how others have come to it:
// the bytes are hashed and compared.
func Encode(template *corev1.PodTemplateSpec) ([]byte, error) {
	return patchOf(template, json.Unmarshal)
}

// encodeWhole is Encode with whole numbers read as such: those beyond 2^53 keep all their digits.
func encodeWhole(template *corev1.PodTemplateSpec) ([]byte, error) {
	return patchOf(template, utiljson.Unmarshal)
}

func patchOf(template *corev1.PodTemplateSpec, read func([]byte, any) error) ([]byte, error) {
	data, err := json.Marshal(template)
	if err != nil {
		return nil, fmt.Errorf("encode a template: %w", err)
	}
	var fields map[string]any
	if err := read(data, &fields); err != nil {
		return nil, fmt.Errorf("read an encoded template: %w", err)
	}
	fields["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
}

// templateHolder is the part of an owner that a revision's patch is applied to.
type templateHolder struct {
	Spec struct {
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

// Template returns the template that an owner has once a revision is applied to it. present is the template that the
// owner has now; it counts only where the revision's patch does not replace it as a whole, as those made by Encode do.
func Template(revision *appsv1.ControllerRevision, present *corev1.PodTemplateSpec) (*corev1.PodTemplateSpec, error) {
	var holder templateHolder
	if !replacesAll(revision.Data.Raw) {
		holder.Spec.Template = *present
	}
	before, err := json.Marshal(&holder)
	if err != nil {
		return nil, fmt.Errorf("encode the template that revision %s is applied to: %w", klog.KObj(revision), err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, revision.Data.Raw, &holder)
	if err != nil {
		return nil, fmt.Errorf("apply revision %s: %w", klog.KObj(revision), err)
	}
	var restored templateHolder
	if err := json.Unmarshal(after, &restored); err != nil {
		return nil, fmt.Errorf("read the template of revision %s: %w", klog.KObj(revision), err)
	}
	return &restored.Spec.Template, nil
}

// replacesAll reports whether the patch of a revision leaves nothing of an owner's template.
func replacesAll(data []byte) bool {
	var patch struct {
		Spec struct {
			Template struct {
				Directive string `json:"$patch"`
			} `json:"template"`
		} `json:"spec"`
	}
	return json.Unmarshal(data, &patch) == nil && patch.Spec.Template.Directive == "replace"
}
