package cache

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func TestAComparisonDecodesNamesAndVersions(t *testing.T) {
	names := metav1.ObjectMeta{Namespace: "default", Name: "web-0", ResourceVersion: "12"}
	whole := *names.DeepCopy()
	whole.UID, whole.Generation, whole.GenerateName, whole.CreationTimestamp = "u", 3, "web-", metav1.NewTime(time.Unix(1, 0))
	whole.Labels, whole.Annotations = map[string]string{"app": "web"}, map[string]string{"a": "b"}
	whole.OwnerReferences = []metav1.OwnerReference{{Name: "web", UID: "v"}}
	whole.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	data, err := (&metav1.PartialObjectMetadata{ObjectMeta: whole}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	left, ok := wire.New(nameAndVersion()).Append(nil, data)
	var got metav1.PartialObjectMetadata
	if err := got.Unmarshal(left); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if !reflect.DeepEqual(got.ObjectMeta, names) {
		t.Errorf("got %+v, want %+v", got.ObjectMeta, names)
	}
}
