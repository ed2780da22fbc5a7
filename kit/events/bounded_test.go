package events

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"k8s.io/utils/clock"
)

// passing is a recorder that remembers which events reach it.
type passing struct {
	record.EventRecorder
	messages []string
}

func (p *passing) Event(_ runtime.Object, _, _, message string) {
	p.messages = append(p.messages, message)
}

func (p *passing) Eventf(_ runtime.Object, _, _, format string, args ...any) {
	p.messages = append(p.messages, fmt.Sprintf(format, args...))
}

func (p *passing) AnnotatedEventf(_ runtime.Object, _ map[string]string, _, _, format string, args ...any) {
	p.messages = append(p.messages, fmt.Sprintf(format, args...))
}

// TestTheSameEventsPassAsThroughTheCorrelator feeds one sequence to both: floods and trickles about many objects over
// hours, named by themselves and by references.
func TestTheSameEventsPassAsThroughTheCorrelator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		correlator := record.NewEventCorrelator(clock.RealClock{})
		seen := &passing{}
		ours := newBounded(seen)
		var objects []runtime.Object
		for i := range 20 {
			name, uid := fmt.Sprintf("o%d", i%7), types.UID(fmt.Sprint(i))
			objects = append(objects,
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid}},
				&corev1.ObjectReference{Kind: "Node", Name: name, UID: uid + "n"},
				&corev1.ObjectReference{Kind: "Pod", Namespace: fmt.Sprint("ns", i), Name: name})
		}
		random := rand.New(rand.NewPCG(1, 2))
		var theirs []string
		const events = 20000
		for n := range events {
			obj := objects[random.IntN(len(objects))]
			if n%3 == 0 {
				obj = objects[n/1000%5] // a flood
			}
			message := fmt.Sprint("event ", n)
			ref, err := reference.GetReference(scheme.Scheme, obj)
			if err != nil {
				t.Fatal(err)
			}
			now := metav1.Now()
			result, err := correlator.EventCorrelate(&corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: fmt.Sprint("e", n)}, InvolvedObject: *ref, Source: corev1.EventSource{Component: "c"},
				Reason: fmt.Sprint("R", random.IntN(3)), Message: message, Type: "Normal", FirstTimestamp: now, LastTimestamp: now, Count: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			if !result.Skip {
				theirs = append(theirs, message)
			}
			switch n % 3 {
			case 0:
				ours.Event(obj, "Normal", "R", message)
			case 1:
				ours.Eventf(obj, "Normal", "R", "event %d", n)
			default:
				ours.AnnotatedEventf(obj, nil, "Normal", "R", "event %d", n)
			}
			time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
		}
		if len(theirs) < 60*25 || len(theirs) > events/2 {
			t.Fatalf("%d of %d events pass the correlator: no good test", len(theirs), events)
		}
		if !slices.Equal(seen.messages, theirs) {
			t.Errorf("%d events pass, %d the correlator", len(seen.messages), len(theirs))
		}
	})
}

func TestObjectsWithoutUIDAreToldApartByKind(t *testing.T) {
	seen := &passing{}
	r := newBounded(seen)
	meta := metav1.ObjectMeta{Namespace: "default", Name: "web"}
	for range 40 {
		r.Event(&corev1.Pod{ObjectMeta: meta}, "Normal", "R", "pod")
		r.Event(&corev1.Service{ObjectMeta: meta}, "Normal", "R", "service")
	}
	if n := len(seen.messages); n != 2*eventBurst {
		t.Errorf("%d events passed, want %d of each", n, eventBurst)
	}
}
