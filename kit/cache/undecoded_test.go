package cache

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/wire"
)

func TestManagedFieldsOfAllKindsAreNotDecoded(t *testing.T) {
	pods, nodes, maps := corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("Node"), corev1.SchemeGroupVersion.WithKind("ConfigMap")
	slim := func() map[schema.GroupVersionKind]Slimming {
		return map[schema.GroupVersionKind]Slimming{
			pods:  {Undecoded: wire.Message{Drop: []int{9}, In: map[int]wire.Message{2: {Drop: []int{1}}}}},
			nodes: {Undecoded: wire.Message{In: map[int]wire.Message{1: {Drop: []int{12}}}}},
		}
	}
	given := slim()
	c := New(Options{Slim: given})
	managed := wire.Message{In: map[int]wire.Message{1: {Drop: []int{17}}}}
	for _, want := range []struct {
		gvk  schema.GroupVersionKind
		form Form
		wire.Message
	}{
		{pods, Structured, wire.Message{Drop: []int{9}, In: map[int]wire.Message{1: {Drop: []int{17}}, 2: {Drop: []int{1}}}}},
		{pods, MetadataOnly, managed},
		{nodes, Structured, wire.Message{In: map[int]wire.Message{1: {Drop: []int{12, 17}}}}},
		{maps, Structured, managed},
	} {
		if got := c.undecoded(want.gvk, want.form); !reflect.DeepEqual(got, want.Message) {
			t.Errorf("%s %s: %+v, want %+v", want.gvk.Kind, want.form, got, want.Message)
		}
	}
	if !reflect.DeepEqual(given, slim()) {
		t.Errorf("what was given has changed: %+v", given)
	}
}
