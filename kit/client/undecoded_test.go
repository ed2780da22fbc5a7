package client

import (
	"math/rand"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"orrery/kit/wire"
)

// withoutManagedFields is what the cache asks for with every kind.
var withoutManagedFields = wire.Message{In: map[int]wire.Message{1: {Drop: []int{17}}}}

// codecsOf returns how the answers that hold objects of a kind are encoded, how they are decoded whole, and how without
// a part of them.
func codecsOf(t *testing.T, gvk schema.GroupVersionKind, m wire.Message) (runtime.Encoder, runtime.Decoder, runtime.Decoder) {
	t.Helper()
	codecs := serializer.NewCodecFactory(scheme.Scheme).WithoutConversion()
	lean := leanNegotiation{codecs, newLeanDecoding(gvk.Kind, m, &buffers{})}
	decoder := func(n runtime.NegotiatedSerializer) (runtime.Encoder, runtime.Decoder) {
		info, ok := runtime.SerializerInfoForMediaType(n.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
		if !ok {
			t.Fatal("there is no way to decode protobuf")
		}
		return n.EncoderForVersion(info.Serializer, gvk.GroupVersion()), n.DecoderToVersion(info.Serializer, gvk.GroupVersion())
	}
	encoder, whole := decoder(codecs)
	_, part := decoder(lean)
	return encoder, whole, part
}

// In every kind that a cache may hold, managed fields are where they are looked for, and nothing else is.
func TestManagedFieldsOfEveryKindAreLeftOut(t *testing.T) {
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), serializer.NewCodecFactory(scheme.Scheme))
	kinds := 0
	for gvk := range scheme.Scheme.AllKnownTypes() {
		made, err := scheme.Scheme.New(gvk)
		obj, ok := made.(Object)
		if _, encodes := made.(interface{ Marshal() ([]byte, error) }); err != nil || !ok || !encodes || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		encoder, whole, part := codecsOf(t, gvk, withoutManagedFields)
		fill.Fill(obj)
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "someone", Operation: metav1.ManagedFieldsOperationApply}})
		data, err := runtime.Encode(encoder, obj)
		if err != nil {
			t.Fatalf("encode %s: %v", gvk, err)
		}
		want, err := runtime.Decode(whole, data)
		if err != nil {
			t.Fatalf("decode %s: %v", gvk, err)
		}
		got, err := runtime.Decode(part, data)
		if err != nil {
			t.Fatalf("decode a part of %s: %v", gvk, err)
		}
		if reflect.DeepEqual(got, want) {
			t.Errorf("%s: managed fields were decoded", gvk)
		}
		want.(Object).SetManagedFields(nil)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v\nwant %+v", gvk, got, want)
		}
		kinds++
	}
	if kinds < 50 {
		t.Errorf("only %d kinds were tried", kinds)
	}
}

func TestListsAreDecodedInPartToo(t *testing.T) {
	encoder, _, part := codecsOf(t, corev1.SchemeGroupVersion.WithKind("Pod"), withoutManagedFields)
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "more"}}
	for _, name := range []string{"a", "b"} {
		list.Items = append(list.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"k": "v"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "someone"}},
		}})
	}
	data, err := runtime.Encode(encoder, list)
	if err != nil {
		t.Fatal(err)
	}
	got, err := runtime.Decode(part, data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		list.Items[i].ManagedFields = nil
	}
	list.TypeMeta = metav1.TypeMeta{}
	if !reflect.DeepEqual(got, list) {
		t.Errorf("got %+v\nwant %+v", got, list)
	}
}

// Of what is not of the kind, as the errors that a watch may send, all is decoded.
func TestOthersAreDecodedWhole(t *testing.T) {
	everything := wire.Message{Keep: []int{63}}
	encoder, whole, part := codecsOf(t, corev1.SchemeGroupVersion.WithKind("Pod"), everything)
	for _, obj := range []runtime.Object{
		&metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old"},
		&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}},
	} {
		data, err := runtime.Encode(encoder, obj)
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := whole.Decode(data, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := part.Decode(data, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
	}
	if _, _, err := part.Decode([]byte("k8s\x00\xff"), nil, nil); err == nil {
		t.Error("what is no message was decoded")
	}
}
