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

// Encode returns the data of a revision of a template: the strategic merge patch {"spec":{"template":T}} that restores the
// template of an owner, where T is the template as JSON with "$patch":"replace" in it. Keys are sorted at all levels, and
// numbers are converted to floating point before they are written. The bytes are hashed and compared, and so must be the
// same as upstream's.
func Encode(template *corev1.PodTemplateSpec) ([]byte, error) {
	return patchOf(template, json.Unmarshal)
}

// encodeWhole is Encode without the conversion of integers to floating point: those beyond 2^53 keep all their digits.
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

// Template returns the template of an owner after a revision is applied to it. current is the owner's current template; it
// matters only if the revision's patch does not replace it as a whole, as a patch made by Encode does.
func Template(revision *appsv1.ControllerRevision, current *corev1.PodTemplateSpec) (*corev1.PodTemplateSpec, error) {
	var holder templateHolder
	if !replacesAll(revision.Data.Raw) {
		holder.Spec.Template = *current
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

// replacesAll reports whether the patch of a revision replaces the template as a whole.
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
