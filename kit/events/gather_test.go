package events

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// sinkLog is a sink that keeps what it is told.
type sinkLog struct {
	mu      sync.Mutex
	calls   []string
	patched []error // answers to the next patches
	created error   // answer to every creation
}

func (l *sinkLog) Create(e *corev1.Event) (*corev1.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, "create "+e.Message+e.ResourceVersion)
	return e, l.created
}

func (l *sinkLog) Update(e *corev1.Event) (*corev1.Event, error) { return e, nil }

func (l *sinkLog) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, "patch "+string(data))
	if len(l.patched) == 0 {
		return e, nil
	}
	err := l.patched[0]
	l.patched = l.patched[1:]
	return e, err
}

// answer forgets the calls and sets the answers to the next patches.
func (l *sinkLog) answer(errs []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls, l.patched = nil, errs
}

// sent returns the calls so far.
func (l *sinkLog) sent() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls)
}

func repeated(name string, message string) *corev1.Event {
	return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "!"}, Message: message}
}

func TestRepetitionsOfAnEventAreSentOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &sinkLog{}
		s := newGatheringSink(t.Context(), log)
		for _, data := range []string{"2", "3", "4"} {
			if e, err := s.Patch(repeated("a", data), []byte(data)); err != nil || e.Message != data {
				t.Fatalf("Patch answers %v, %v; want the event as it will be", e, err)
			}
		}
		_, _ = s.Patch(repeated("b", "2"), []byte("b2"))
		_, _ = s.Create(repeated("c", "now"))
		time.Sleep(eventSettle / 2)
		if want := []string{"create now!"}; !slices.Equal(log.sent(), want) {
			t.Errorf("sent %v, want only %v so far", log.sent(), want)
		}
		time.Sleep(eventSettle)
		if want := []string{"create now!", "patch 4", "patch b2"}; !slices.Equal(slices.Sorted(slices.Values(log.sent())), want) {
			t.Errorf("sent %v, want %v", log.sent(), want)
		}
		_, _ = s.Patch(repeated("a", "5"), []byte("5"))
		time.Sleep(2 * eventSettle)
		if got := log.sent()[3]; got != "patch 5" {
			t.Errorf("the last call is %q, want the later repetition", got)
		}
	})
}

func TestRepetitionOfAnExpiredEventIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &sinkLog{patched: []error{apierrors.NewNotFound(schema.GroupResource{Resource: "events"}, "a")}}
		_, _ = newGatheringSink(t.Context(), log).Patch(repeated("a", "m"), []byte("p"))
		time.Sleep(2 * eventSettle)
		if want := []string{"patch p", "create m"}; !slices.Equal(log.sent(), want) {
			t.Errorf("sent %v, want %v", log.sent(), want)
		}
	})
}

func TestARepetitionMayGoWithItsNamespace(t *testing.T) {
	events := schema.GroupResource{Resource: "events"}
	terminating := apierrors.NewForbidden(events, "", errors.New("namespace ns is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, test := range map[string]struct {
		created error
		logged  int
	}{
		"gone":        {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ns"), 0},
		"terminating": {terminating, 0},
		"refused":     {apierrors.NewForbidden(events, "a", errors.New("no")), 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			logged := 0
			logger := funcr.New(func(_, _ string) { logged++ }, funcr.Options{})
			log := &sinkLog{patched: []error{apierrors.NewNotFound(events, "a")}, created: test.created}
			_, _ = newGatheringSink(klog.NewContext(t.Context(), logger), log).Patch(repeated("a", "m"), []byte("p"))
			time.Sleep(2 * eventSettle)
			synctest.Wait()
			if logged != test.logged || len(log.sent()) != 2 {
				t.Errorf("%s: %d lines in the log after %v, want %d", name, logged, log.sent(), test.logged)
			}
		})
	}
}

func TestRepetitionOutlivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("connection refused")
		log := &sinkLog{patched: []error{down, down}}
		s := newGatheringSink(t.Context(), log)
		_, _ = s.Patch(repeated("a", "2"), []byte("2"))
		time.Sleep(2 * eventSettle)
		_, _ = s.Patch(repeated("a", "3"), []byte("3"))
		time.Sleep(3 * eventRetry)
		if want := []string{"patch 2", "patch 3", "patch 3"}; !slices.Equal(log.sent(), want) {
			t.Errorf("sent %v, want %v", log.sent(), want)
		}
		log.answer(slices.Repeat([]error{down}, 100))
		_, _ = s.Patch(repeated("a", "4"), []byte("4"))
		time.Sleep(20 * eventAttempts * eventRetry)
		if got := len(log.sent()); got != eventAttempts {
			t.Errorf("tried %d times, want %d", got, eventAttempts)
		}
	})
}

func TestNothingIsSentAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		log := &sinkLog{}
		_, _ = newGatheringSink(ctx, log).Patch(repeated("a", "2"), []byte("2"))
		cancel()
		time.Sleep(2 * eventSettle)
		if len(log.sent()) != 0 {
			t.Errorf("sent %v after the end", log.sent())
		}
	})
}

// TestSimilarEventsAreCounted runs client-go's recorder on the sink: the event that stands for many ends with the count
// that it would have had with a patch for each.
func TestSimilarEventsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		log := &sinkLog{}
		b := record.NewBroadcaster(record.WithContext(ctx))
		defer b.Shutdown()
		b.StartRecordingToSink(newGatheringSink(ctx, log))
		r := newBounded(b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "c"}))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
		for range eventBurst {
			r.Event(pod, corev1.EventTypeNormal, "Again", "the same")
		}
		time.Sleep(2 * eventSettle)
		if len(log.sent()) != 2 || log.sent()[0] != "create the same" {
			t.Fatalf("sent %v, want one event and one change of it", log.sent())
		}
		if want := `"count":25`; !strings.Contains(log.sent()[1], want) {
			t.Errorf("the change is %s, want %s in it", log.sent()[1], want)
		}
	})
}
