package namespace

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

func event(namespace, name string) *corev1.Event {
	return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, InvolvedObject: corev1.ObjectReference{Namespace: namespace, Name: "x"}}
}

// crowded returns an API with a namespace of many events, and of some in another.
func crowded(t *testing.T) *kittest.API {
	t.Helper()
	api := kittest.New(t, namespace("shop"), namespace("other"), event("other", "e"), configMap("shop", "needed"))
	for i := range 100 {
		api.Create(t, event("shop", fmt.Sprint("e", i)))
	}
	return api
}

// eventsLeft returns how many of crowded's events there are.
func eventsLeft(t *testing.T, api *kittest.API) (n int) {
	t.Helper()
	for i := range 100 {
		if api.Get(t, event("shop", fmt.Sprint("e", i))) {
			n++
		}
	}
	return n
}

// TestEventsGoInTheGrace as soon as the last pod has gone, and nothing else does.
func TestEventsGoInTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := crowded(t)
		api.Create(t, pod("shop", "a", "n"))
		api.Run(t, Descriptor())
		api.Settle()
		start := time.Now()
		api.Delete(t, namespace("shop"))
		after(api, start, 2*time.Second)
		if n := eventsLeft(t, api); n != 100 {
			t.Errorf("%d of 100 events are left while a pod is stopping", n)
		}
		api.Remove(t, pod("shop", "a", ""))
		after(api, start, 3*time.Second)
		if n := eventsLeft(t, api); n > 0 || !api.Get(t, configMap("shop", "needed")) || !api.Get(t, event("other", "e")) {
			t.Errorf("%d events are left after the last pod; writes: %v", n, api.Writes())
		}
		after(api, start, 6*time.Second)
		if api.Get(t, namespace("shop")) {
			t.Errorf("the namespace is still there; writes: %v", api.Writes())
		}
	})
}

// TestAFewEventsWait for the pass that deletes them with one request.
func TestAFewEventsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, namespace("shop"), event("shop", "a"), event("shop", "b"))
		api.Run(t, Descriptor())
		api.Settle()
		api.Delete(t, namespace("shop"))
		api.Pass(4900 * time.Millisecond)
		if !api.Get(t, event("shop", "a")) {
			t.Errorf("writes: %v", api.Writes())
		}
		api.Pass(time.Second)
		if api.Get(t, namespace("shop")) || slices.ContainsFunc(api.Writes(), func(w string) bool { return strings.HasPrefix(w, "delete v1/events") }) {
			t.Errorf("writes: %v", api.Writes())
		}
	})
}

// slow is how long a server takes that is slow.
const slow = 8 * time.Second

// TestTroubleWithEventsDoesNotHoldUpTheRest, neither a refusal nor a server that does not answer.
func TestTroubleWithEventsDoesNotHoldUpTheRest(t *testing.T) {
	for name, answer := range map[string]func() *kittest.Reaction{
		"refused": func() *kittest.Reaction { return kittest.Refuse(http.StatusInternalServerError, "not now") },
		"slow":    func() *kittest.Reaction { time.Sleep(slow); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := crowded(t)
				api.React(func(r *kittest.Request) *kittest.Reaction {
					if r.Resource.Resource == "events" && strings.HasPrefix(r.Verb, "delete") {
						return answer()
					}
					return nil
				})
				api.Run(t, Descriptor())
				api.Settle()
				start := time.Now()
				api.Delete(t, namespace("shop"))
				after(api, start, slow+time.Second)
				if api.Get(t, configMap("shop", "needed")) {
					t.Errorf("nothing else has gone; writes: %v", api.Writes())
				}
			})
		})
	}
}

// TestTheEventsOfANamespaceMadeAnewAreLeftAlone: the cache may still show the one that was deleted.
func TestTheEventsOfANamespaceMadeAnewAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := crowded(t)
		api.Run(t, Descriptor())
		api.Settle()
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "get" && r.Resource.Resource == "namespaces" {
				api.Unreact()
				api.Remove(t, namespace("shop"))
				api.Create(t, namespace("shop"))
			}
			return nil
		})
		api.Delete(t, namespace("shop"))
		api.Pass(time.Minute)
		api.Expect(t)
	})
}
