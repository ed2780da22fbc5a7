package events

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
)

// slowSink takes a while for each call, until the end of the test.
type slowSink struct {
	sinkLog
	pause time.Duration
	end   context.Context
}

func (s *slowSink) wait() {
	select {
	case <-time.After(s.pause):
	case <-s.end.Done():
	}
}

func (s *slowSink) Create(e *corev1.Event) (*corev1.Event, error) {
	s.wait()
	return s.sinkLog.Create(e)
}

func (s *slowSink) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	s.wait()
	return s.sinkLog.Patch(e, data)
}

func numbered(i int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint(i))}}
}

func TestAFlushSendsWhatIsQueuedAndWhatIsGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: logVerbosity})
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
		sink := &slowSink{pause: 5 * time.Millisecond, end: t.Context()}
		p := newPublisher(ctx, sink)
		r := p.Recorder(scheme.Scheme, "c")
		const objects = 20
		for range 3 {
			for i := range objects {
				r.Event(numbered(i), corev1.EventTypeNormal, "Same", "again and again")
			}
		}
		p.Flush(ctx)
		cancel()
		time.Sleep(time.Minute)
		synctest.Wait()
		created, counted := 0, 0
		for _, call := range sink.sent() {
			switch {
			case strings.HasPrefix(call, "create again"):
				created++
			case strings.Contains(call, `"count":3`):
				counted++
			default:
				t.Errorf("unexpected %q", call)
			}
		}
		if created != objects || counted != objects {
			t.Errorf("%d events and %d final counts at the server, want %d of each", created, counted, objects)
		}
		if got := len(lines); got != 3*objects {
			t.Errorf("%d lines in the log, want one for each event", got)
		}
	})
}

func TestAFlushEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, pause := range map[string]time.Duration{"each call is slow": 40 * time.Millisecond, "no call ends in time": time.Hour} {
			ctx, cancel := context.WithCancel(t.Context())
			p := newPublisher(ctx, &slowSink{pause: pause, end: ctx})
			r := p.Recorder(scheme.Scheme, "c")
			for i := range 100 {
				r.Event(numbered(i), corev1.EventTypeNormal, "Made", "new")
			}
			start := time.Now()
			limit, end := context.WithTimeout(ctx, 300*time.Millisecond)
			p.Flush(limit)
			if took := time.Since(start); took != 300*time.Millisecond {
				t.Errorf("%s: the flush took %s", name, took)
			}
			end()
			cancel()
		}
	})
}

func TestAFlushOfNothingTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		sink := &slowSink{pause: time.Hour, end: ctx}
		p := newPublisher(ctx, sink)
		start := time.Now()
		for range 3 {
			p.Flush(ctx)
		}
		if took := time.Since(start); took != 0 || len(sink.sent()) != 0 {
			t.Errorf("took %s, sent %v", took, sink.sent())
		}
	})
}
