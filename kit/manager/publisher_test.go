package manager_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"orrery/kit/kittest"
	"orrery/kit/manager"
)

// The last events of a controller are about its last writes.
func TestTheLastEventsAreSentBeforeTheLeaseIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		m := newManager(t, api, manager.Options{Election: manager.Election{Enabled: true}, ShutdownTimeout: 10 * time.Second})
		config := m.Config()
		config.Wrap(m.Fence().Wrap)
		p, err := m.PublisherWithLease(config)
		if err != nil {
			t.Fatal(err)
		}
		recorders := []record.EventRecorder{m.Context("own").Recorder, p.Recorder(m.Scheme(), "under another identity")}
		last := manager.Func("controller", func(ctx context.Context) error {
			<-ctx.Done()
			for i, r := range recorders {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("web-", i)}}
				for range 3 {
					r.Event(pod, corev1.EventTypeNormal, "Again", "again")
				}
			}
			return nil
		})
		if err := m.Add(last); err != nil {
			t.Fatal(err)
		}
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Resource.Resource == "events" && r.Namespace == "default" && holder(t, api) == "" {
				t.Error("an event after the lease was given back")
			}
			return nil
		})
		running := start(t, api, m)
		api.Pass(time.Minute)
		running.stop()
		api.Pass(100 * time.Millisecond)
		if h := holder(t, api); h != "" {
			t.Errorf("the lease is still held by %s", h)
		}
		var got []string
		for _, e := range kittest.List[corev1.Event](t, api, "default") {
			got = append(got, fmt.Sprintf("%s: %s, %d times", e.Source.Component, e.Reason, e.Count))
		}
		if want := []string{"own: Again, 3 times", "under another identity: Again, 3 times"}; !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}
