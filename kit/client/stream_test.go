package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"
)

// watchOf decodes the events of a body as a request for a kind does.
func watchOf(t testing.TB, n runtime.NegotiatedSerializer, body io.ReadCloser) *restwatch.Decoder {
	t.Helper()
	objects, events, framer, err := runtime.NewClientNegotiator(n, corev1.SchemeGroupVersion).StreamDecoder(runtime.ContentTypeProtobuf, nil)
	if err != nil {
		t.Fatal(err)
	}
	return restwatch.NewDecoder(streaming.NewDecoder(framer.NewFrameReader(body), events), objects)
}

// sent returns what a server sends for events.
func sent(t testing.TB, all []watch.Event) []byte {
	t.Helper()
	codecs := serializer.NewCodecFactory(scheme.Scheme).WithoutConversion()
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	encoder := codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
	var out bytes.Buffer
	stream := streaming.NewEncoder(info.StreamSerializer.Framer.NewFrameWriter(&out), info.StreamSerializer.Serializer)
	for _, e := range all {
		raw, err := runtime.Encode(encoder, e.Object)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Encode(&metav1.WatchEvent{Type: string(e.Type), Object: runtime.RawExtension{Raw: raw}}); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// pieces is a body that comes in pieces of some sizes, in turn, and then ends with an error.
type pieces struct {
	data  []byte
	sizes []int
	end   error
	reads int
}

func (p *pieces) Read(into []byte) (int, error) {
	p.reads++
	if len(p.data) == 0 {
		return 0, p.end
	}
	n := copy(into, p.data[:min(len(p.data), p.sizes[p.reads%len(p.sizes)])])
	p.data = p.data[n:]
	return n, nil
}

func (p *pieces) Close() error { return nil }

func someEvents() []watch.Event {
	var all []watch.Event
	for i := range 40 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), Labels: map[string]string{"n": string(make([]byte, i*i*10))}}}
		all = append(all, watch.Event{Type: []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark}[i%4], Object: pod})
	}
	large := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "large", Annotations: map[string]string{"k": string(make([]byte, 3*chunkSize))}}}
	return append(all, watch.Event{Type: watch.Added, Object: large}, watch.Event{Type: watch.Error, Object: &metav1.Status{Code: 410, Reason: metav1.StatusReasonExpired}})
}

// However the bytes of a watch arrive, its events are those that were sent, and stay so when others follow.
func TestAWatchIsReadAsItWasSent(t *testing.T) {
	events := someEvents()
	data := sent(t, events)
	codecs := serializer.NewCodecFactory(scheme.Scheme).WithoutConversion()
	lean := leanNegotiation{codecs, newLeanDecoding("Pod", withoutManagedFields, &buffers{})}
	lost := errors.New("connection lost")
	for _, sizes := range [][]int{{1}, {3, 1, 7}, {1000}, {5, chunkSize}, {1 << 20}} {
		d := watchOf(t, lean, &pieces{data: data, sizes: sizes, end: lost})
		var got []watch.Event
		for {
			kind, obj, err := d.Decode()
			if err != nil {
				if !errors.Is(err, lost) {
					t.Errorf("pieces of %d: %v", sizes, err)
				}
				break
			}
			got = append(got, watch.Event{Type: kind, Object: obj})
		}
		// What the decoder that decodes all says is right.
		var want []watch.Event
		for whole := watchOf(t, codecs, io.NopCloser(bytes.NewReader(data))); ; {
			kind, obj, err := whole.Decode()
			if err != nil {
				break
			}
			want = append(want, watch.Event{Type: kind, Object: obj})
		}
		if len(want) != len(events) || !reflect.DeepEqual(got, want) {
			t.Errorf("pieces of %d: %d events of %d, or others than those sent", sizes, len(got), len(events))
		}
	}
}

// What has piled up is read at once, and what is silent holds no buffer.
func TestAWatchIsReadInLargePieces(t *testing.T) {
	frame := append([]byte{0, 0, 0, 100}, make([]byte, 100)...)
	p := &pieces{data: slices.Repeat(frame, 100), sizes: []int{1 << 20}, end: io.EOF}
	c := &chunkedBody{body: p, buffers: &buffers{}}
	for range 100 {
		if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if p.reads > 4 {
		t.Errorf("%d reads for 100 small events that were there", p.reads)
	}
	if c.buf != nil {
		t.Error("a buffer is held though all has been read")
	}
	if _, err := c.Read(make([]byte, 4)); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestWhatIsNoEventIsAnError(t *testing.T) {
	lean := leanNegotiation{serializer.NewCodecFactory(scheme.Scheme).WithoutConversion(), newLeanDecoding("Pod", withoutManagedFields, &buffers{})}
	for _, frame := range []string{"\xff", "\x0a\x05ADDED", "\x0a\x03ODD\x12\x00"} {
		body := append([]byte{0, 0, 0, byte(len(frame))}, frame...)
		if kind, obj, err := watchOf(t, lean, io.NopCloser(bytes.NewReader(body))).Decode(); err == nil {
			t.Errorf("%q became %s %v", frame, kind, obj)
		}
	}
}

func BenchmarkWatch(b *testing.B) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "u", ResourceVersion: "1", Labels: map[string]string{"app": "a", "hash": "h"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(make([]byte, 900)))}}},
		Spec:   corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i", Env: make([]corev1.EnvVar, 3)}}, Tolerations: make([]corev1.Toleration, 2)},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", Conditions: make([]corev1.PodCondition, 4)},
	}
	codecs := serializer.NewCodecFactory(scheme.Scheme).WithoutConversion()
	data := sent(b, []watch.Event{{Type: watch.Modified, Object: pod}})
	for name, n := range map[string]runtime.NegotiatedSerializer{
		"whole": codecs, "lean": leanNegotiation{codecs, newLeanDecoding("Pod", withoutManagedFields, &buffers{})},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			d := watchOf(b, n, io.NopCloser(&again{data: data}))
			for b.Loop() {
				if _, _, err := d.Decode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// again is the same data over and over.
type again struct {
	data []byte
	at   int
}

func (a *again) Read(p []byte) (int, error) {
	n := copy(p, a.data[a.at:])
	a.at = (a.at + n) % len(a.data)
	return n, nil
}
