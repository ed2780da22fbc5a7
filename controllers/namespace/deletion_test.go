package namespace

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"orrery/kit/kittest"
)

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func configMap(namespace, name string, finalizers ...string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: finalizers}}
}

func pod(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:   corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning}}
}

// custom returns a custom resource in the namespace shop.
func custom(gvk schema.GroupVersionKind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	o.SetNamespace("shop")
	o.SetName(name)
	return o
}

// broken is a discovery client of a server some of whose groups may be down.
type broken struct {
	discovery.DiscoveryInterface
	err  atomic.Pointer[discovery.ErrGroupDiscoveryFailed]
	edit func([]*metav1.APIResourceList) []*metav1.APIResourceList
	none bool
}

func (b *broken) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	if b.none {
		return nil, nil
	}
	lists, err := b.DiscoveryInterface.ServerPreferredNamespacedResources()
	if b.edit != nil {
		lists = b.edit(lists)
	}
	if down := b.err.Load(); down != nil {
		return lists, down
	}
	return lists, err
}

func (b *broken) down(group string) {
	b.err.Store(&discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: group, Version: "v1"}: errors.New("no route")}})
}

// run starts the controller with a discovery client that b controls.
func run(t *testing.T, api *kittest.API, b *broken) {
	t.Helper()
	d := Descriptor()
	cc := api.Context(d.Name, d.RBAC...)
	b.DiscoveryInterface, cc.Discovery = cc.Discovery, b
	api.RunIn(t, cc, d.Init)
}

// after lets time pass up to d after the start.
func after(api *kittest.API, start time.Time, d time.Duration) { api.Pass(d - time.Since(start)) }

func condition(t *testing.T, api *kittest.API, name string, kind corev1.NamespaceConditionType) corev1.NamespaceCondition {
	t.Helper()
	ns := namespace(name)
	if !api.Get(t, ns) {
		t.Fatalf("namespace %s is gone", name)
	}
	for _, c := range ns.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.NamespaceCondition{}
}

// TestAnEmptyNamespaceGoesRightAfterItsGrace is the report of further rounds of five seconds.
func TestAnEmptyNamespaceGoesRightAfterItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, namespace("shop"), configMap("shop", "a"), configMap("shop", "b"), configMap("other", "a"))
		api.Run(t, Descriptor())
		api.Settle()
		start := time.Now()
		api.Delete(t, namespace("shop"))
		after(api, start, 4900*time.Millisecond)
		api.Expect(t)
		after(api, start, 5500*time.Millisecond)
		if api.Get(t, namespace("shop")) {
			t.Errorf("still there half a second after its grace; writes: %v", api.Writes())
		}
		if !api.Get(t, configMap("other", "a")) {
			t.Error("another namespace was emptied too")
		}
	})
}

func TestPodsGoBeforeEverythingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, namespace("shop"), configMap("shop", "needed"), pod("shop", "a", "n"), pod("shop", "b", "n"))
		api.Run(t, Descriptor())
		api.Settle()
		start := time.Now()
		api.Delete(t, namespace("shop"))
		after(api, start, 12*time.Second)
		if !api.Get(t, configMap("shop", "needed")) {
			t.Error("the config map went while pods were still stopping")
		}
		if c := condition(t, api, "shop", corev1.NamespaceContentRemaining); c.Status != corev1.ConditionFalse {
			t.Errorf("ContentRemaining = %+v; nothing is known of the rest yet", c)
		}
		api.Remove(t, pod("shop", "a", ""))
		api.Pass(50 * time.Millisecond)
		api.Remove(t, pod("shop", "b", ""))
		api.Pass(time.Second)
		if api.Get(t, namespace("shop")) {
			t.Errorf("still there a second after its last pod went; writes: %v", api.Writes())
		}
	})
}

// TestPodsAreToldToStopAtOnce: they take the most time, and nothing else may go before them.
func TestPodsAreToldToStopAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, namespace("shop"), configMap("shop", "needed"), pod("shop", "a", "n"), pod("other", "a", "n"))
		api.Run(t, Descriptor())
		api.Settle()
		start := time.Now()
		api.Delete(t, namespace("shop"))
		after(api, start, time.Second)
		api.Expect(t, "delete v1/pods shop/a")
		// An API server that has not heard of the deletion yet lets another one in.
		api.Remove(t, pod("shop", "a", ""))
		api.Create(t, pod("shop", "late", "n"))
		after(api, start, 4900*time.Millisecond)
		api.Expect(t, "delete v1/pods shop/late")
		if !api.Get(t, configMap("shop", "needed")) || !api.Get(t, namespace("shop")) {
			t.Error("more than pods went within the grace")
		}
		if !api.Get(t, pod("other", "a", "")) {
			t.Error("a pod of another namespace went")
		}
	})
}

// TestManyPodsDoNotMakeTheGraceLonger: the server may take its time to delete them.
func TestManyPodsDoNotMakeTheGraceLonger(t *testing.T) {
	for _, takes := range []time.Duration{4 * time.Second, 6 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			api := kittest.New(t, namespace("shop"), pod("shop", "a", ""))
			api.Run(t, Descriptor())
			api.Settle()
			api.React(func(r *kittest.Request) *kittest.Reaction {
				if r.Verb == "delete" && r.Resource.Resource == "pods" {
					time.Sleep(takes)
					api.Unreact()
				}
				return nil
			})
			start := time.Now()
			api.Delete(t, namespace("shop"))
			after(api, start, max(takes, grace)+time.Second)
			if api.Get(t, namespace("shop")) {
				t.Errorf("with a request of %v: still there after %v; writes: %v", takes, time.Since(start), api.Writes())
			}
		})
	}
}

// TestThePodsOfANamespaceMadeAnewAreLeftAlone: the cache may still show the one that was deleted.
func TestThePodsOfANamespaceMadeAnewAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := namespace("shop")
		api := kittest.New(t, old, pod("shop", "a", "n"))
		api.Run(t, Descriptor())
		api.Settle()
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb != "get" || r.Resource.Resource != "namespaces" {
				return nil
			}
			api.Unreact()
			api.Remove(t, old)
			api.Create(t, namespace("shop"))
			return nil
		})
		api.Delete(t, old)
		api.Pass(time.Minute)
		api.Expect(t)
	})
}

// TestANamespaceMadeAnewAndDeletedAgainHasItsOwnGrace: the cache may still show the one before.
func TestANamespaceMadeAnewAndDeletedAgainHasItsOwnGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := namespace("shop")
		api := kittest.New(t, old)
		api.Run(t, Descriptor())
		api.Settle()
		api.Delete(t, old)
		api.Pass(4900 * time.Millisecond)
		api.FreezeWatch(corev1.SchemeGroupVersion.WithKind("Namespace"), true)
		api.Remove(t, old)
		api.Create(t, namespace("shop"))
		api.Create(t, configMap("shop", "a"))
		api.Delete(t, namespace("shop"))
		start := time.Now()
		after(api, start, time.Second)
		api.Expect(t)
		api.FreezeWatch(corev1.SchemeGroupVersion.WithKind("Namespace"), false)
		after(api, start, 7*time.Second)
		if api.Get(t, namespace("shop")) {
			t.Errorf("still there; writes: %v", api.Writes())
		}
	})
}

// TestAKindThatCannotBeListedIsDeletedAllTheSame: discovery said that it could.
func TestAKindThatCannotBeListedIsDeletedAllTheSame(t *testing.T) {
	for _, code := range []int{404, 405} {
		synctest.Test(t, func(t *testing.T) {
			api := kittest.New(t, namespace("shop"), configMap("shop", "a"))
			api.React(func(r *kittest.Request) *kittest.Reaction {
				if r.Verb == "list" && r.Resource.Resource == "configmaps" {
					return kittest.Refuse(code, "no")
				}
				return nil
			})
			api.Run(t, Descriptor())
			api.Settle()
			api.Delete(t, namespace("shop"))
			api.Pass(7 * time.Second)
			if api.Get(t, namespace("shop")) || api.Get(t, configMap("shop", "a")) {
				t.Errorf("%d: something is left; writes: %v", code, api.Writes())
			}
		})
	}
}

// TestANamespaceThatChangesAllTheTimeGoes: somebody writes to it within each pass.
func TestANamespaceThatChangesAllTheTimeGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := namespace("shop")
		api := kittest.New(t, ns, configMap("shop", "a"))
		api.Run(t, Descriptor())
		api.Settle()
		n := 0
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.User == Name && r.Verb == "list" && r.Resource.Resource == "configmaps" && api.Get(t, ns) {
				n++
				ns.Labels = map[string]string{"seen": fmt.Sprint(n)}
				api.Update(t, ns)
			}
			return nil
		})
		api.Delete(t, namespace("shop"))
		api.Pass(time.Minute)
		if api.Get(t, namespace("shop")) {
			t.Errorf("still there after %d changes; conditions %+v", n, ns.Status.Conditions)
		}
	})
}

// TestASuccessorIsNotEmptiedForTheOneBefore: it takes the name while the one before is about to be emptied.
func TestASuccessorIsNotEmptiedForTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := namespace("shop")
		api := kittest.New(t, old)
		api.Run(t, Descriptor())
		api.Settle()
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "update" && r.Resource.Resource == "namespaces" {
				api.Unreact()
				api.Remove(t, old)
				api.Create(t, namespace("shop"))
				api.Create(t, configMap("shop", "a"))
			}
			return nil
		})
		api.Delete(t, old)
		api.Get(t, old)
		old.Status.Phase = corev1.NamespaceActive // the server has not marked it
		api.Update(t, old)
		api.Pass(time.Minute)
		api.Expect(t)
	})
}

func TestADeletionIsForgottenInTime(t *testing.T) {
	var s sightings
	start := time.Unix(1000, 0)
	if left := s.graceLeft("a", start); left != grace {
		t.Errorf("at first sight %v are left, want %v", left, grace)
	}
	if left := s.graceLeft("a", start.Add(3*time.Second)); left != grace-3*time.Second {
		t.Errorf("after 3 s %v are left", left)
	}
	s.graceLeft("b", start.Add(2*time.Hour))
	s.forget("b")
	if len(s.first) != 0 {
		t.Errorf("remembered: %v, want none: the one is old, the other was forgotten", s.first)
	}
}

func TestAFinalizerIsWaitedForAndNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := configMap("shop", "held", "example.com/hold")
		api := kittest.New(t, namespace("shop"), held, configMap("shop", "free"))
		api.Run(t, Descriptor())
		api.Settle()
		start := time.Now()
		api.Delete(t, namespace("shop"))
		after(api, start, time.Minute)
		want := map[corev1.NamespaceConditionType]string{
			corev1.NamespaceContentRemaining:    "Some resources are remaining: configmaps. has 1 resource instances",
			corev1.NamespaceFinalizersRemaining: "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
		}
		for kind, message := range want {
			if c := condition(t, api, "shop", kind); c.Status != corev1.ConditionTrue || c.Message != message {
				t.Errorf("%s = %s %q, want %q", kind, c.Status, c.Message, message)
			}
		}
		if c := condition(t, api, "shop", corev1.NamespaceDeletionContentFailure); c.Status != corev1.ConditionFalse {
			t.Errorf("a finalizer is no failure: %+v", c)
		}
		writes := len(api.TakeWrites())
		if writes > 40 {
			t.Errorf("%d writes in a minute of waiting", writes)
		}
		api.Get(t, held)
		held.Finalizers = nil
		api.Update(t, held)
		api.Pass(10 * time.Second)
		if api.Get(t, namespace("shop")) {
			t.Error("still there ten seconds after the last finalizer went")
		}
	})
}

// TestABrokenGroupKeepsTheNamespaceAndNothingElse is the report of namespaces that hung on an unrelated APIService.
func TestABrokenGroupKeepsTheNamespaceAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := namespace("old")
		api := kittest.New(t, namespace("shop"), configMap("shop", "a"), pod("shop", "p", ""), old, configMap("old", "a"))
		api.Delete(t, old) // Terminating already when the controller starts
		b := &broken{}
		b.down("metrics.example.com")
		run(t, api, b)
		api.Settle()
		api.Delete(t, namespace("shop"))
		api.Pass(2 * time.Minute)
		for _, ns := range []string{"shop", "old"} {
			if api.Get(t, configMap(ns, "a")) || api.Get(t, pod(ns, "p", "")) {
				t.Errorf("%s: what can be discovered has to go", ns)
			}
			c := condition(t, api, ns, corev1.NamespaceDeletionDiscoveryFailure)
			if c.Status != corev1.ConditionTrue || c.Reason != "DiscoveryFailed" ||
				!strings.HasPrefix(c.Message, "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: metrics.example.com/v1: no route") {
				t.Errorf("%s: condition = %+v", ns, c)
			}
			n := namespace(ns)
			if api.Get(t, n); len(n.Spec.Finalizers) != 1 {
				t.Errorf("%s: finalizers = %v; what a broken group holds is not known", ns, n.Spec.Finalizers)
			}
		}
		b.err.Store(nil)
		api.Pass(90 * time.Second)
		if api.Get(t, namespace("shop")) || api.Get(t, namespace("old")) {
			t.Error("still there after the group has come back")
		}
	})
}

func TestADiscoveryOfNothingFinalizesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, namespace("shop"), configMap("shop", "a"))
		b := &broken{none: true}
		run(t, api, b)
		api.Settle()
		api.Delete(t, namespace("shop"))
		api.Pass(2 * time.Minute)
		if !api.Get(t, namespace("shop")) {
			t.Error("a server that names no kinds does not show that a namespace is empty")
		}
	})
}

// TestAKindThatCanOnlyBeCreatedIsLeftOut is the report of an aggregated API without list and delete.
func TestAKindThatCanOnlyBeCreatedIsLeftOut(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "review.example.com", Version: "v1", Kind: "Review"}
	for _, tc := range []struct {
		name  string
		verbs metav1.Verbs
	}{
		{"discovery says so", metav1.Verbs{"create"}},
		{"discovery is wrong", metav1.Verbs{"create", "list", "delete", "deletecollection"}},
		{"it cannot be listed", metav1.Verbs{"create", "delete", "deletecollection"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := kittest.New(t, namespace("shop"))
				api.AddKind(gvk, "reviews", true)
				api.Serve(schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: "reviews"}, true)
				api.React(func(r *kittest.Request) *kittest.Reaction {
					if r.Resource.Resource != "reviews" {
						return nil
					}
					if len(tc.verbs) == 1 {
						t.Errorf("%s: a kind that cannot be deleted must not be asked for", r)
					}
					return kittest.Refuse(405, "the server does not allow this method on the requested resource")
				})
				run(t, api, &broken{edit: func(lists []*metav1.APIResourceList) []*metav1.APIResourceList {
					for _, l := range lists {
						for i := range l.APIResources {
							if l.APIResources[i].Name == "reviews" {
								l.APIResources[i].Verbs = tc.verbs
							}
						}
					}
					return lists
				}})
				api.Settle()
				api.Delete(t, namespace("shop"))
				api.Pass(6 * time.Second)
				if api.Get(t, namespace("shop")) {
					t.Error("still there")
				}
			})
		})
	}
}

func TestAKindWithoutDeleteCollectionIsDeletedOneByOne(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, namespace("shop"))
		api.AddKind(gvk, "widgets", true)
		api.Serve(schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: "widgets"}, true)
		for i := range 30 {
			api.Create(t, custom(gvk, fmt.Sprintf("w%d", i)))
		}
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "deletecollection" && r.Resource.Resource == "widgets" {
				return kittest.Refuse(405, "no")
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Settle()
		api.Delete(t, namespace("shop"))
		api.Pass(6 * time.Second)
		if api.Get(t, namespace("shop")) {
			t.Errorf("still there; writes %v", api.Writes())
		}
	})
}

// TestManyOfAKindAreDeletedInPages: of a request the server deletes one after the other, so it gets several at once. What is
// in a page that it refuses gets requests of its own, and nothing does if the server has no time.
func TestManyOfAKindAreDeletedInPages(t *testing.T) {
	const second = "shop/m099" // the token of the second page
	refuse := func(code int, tokens ...string) func(*kittest.Request) *kittest.Reaction {
		return func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "deletecollection" && (tokens == nil || slices.Contains(tokens, r.Param("continue"))) {
				return kittest.Refuse(code, "not so many")
			}
			return nil
		}
	}
	for name, test := range map[string]struct {
		n                    int
		answer               func(*kittest.Request) *kittest.Reaction
		wantPages, wantAlone int
		wantAtOnce           int
	}{
		"one page":                {n: pageSize, wantPages: 1, wantAtOnce: 1},
		"some pages":              {n: 250, wantPages: 3, wantAtOnce: 3},
		"more than go at once":    {n: 25 * pageSize, wantPages: 25, wantAtOnce: atOnce},
		"a page is refused":       {n: 250, answer: refuse(http.StatusForbidden, second), wantPages: 3, wantAlone: pageSize, wantAtOnce: atOnce},
		"a page has expired":      {n: 250, answer: refuse(http.StatusGone, second), wantPages: 3, wantAlone: pageSize, wantAtOnce: atOnce},
		"a webhook fails":         {n: 250, answer: refuse(http.StatusInternalServerError, ""), wantPages: 3, wantAlone: pageSize, wantAtOnce: atOnce},
		"collections are refused": {n: 250, answer: refuse(http.StatusMethodNotAllowed), wantPages: 3, wantAlone: 250, wantAtOnce: atOnce},
		"collections are unknown": {n: 250, answer: refuse(http.StatusNotFound), wantPages: 3, wantAlone: 250, wantAtOnce: atOnce}, // whatever discovery says
		"a page takes too long":   {n: 250, answer: refuse(http.StatusGatewayTimeout, second), wantPages: 4, wantAtOnce: 3},        // the last by the next pass
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := kittest.New(t, namespace("shop"), namespace("other"), configMap("other", "m0"))
				for i := range test.n {
					api.Create(t, configMap("shop", fmt.Sprintf("m%03d", i)))
				}
				var alone, pages atomic.Int64
				var gauge kittest.Gauge
				api.React(func(r *kittest.Request) *kittest.Reaction {
					if r.Resource.Resource != "configmaps" || !strings.HasPrefix(r.Verb, "delete") {
						return nil
					}
					if r.Verb == "delete" {
						alone.Add(1)
					} else {
						pages.Add(1)
					}
					gauge.Hold(time.Millisecond)
					if test.answer != nil {
						return test.answer(r)
					}
					return nil
				})
				api.Run(t, Descriptor())
				api.Settle()
				api.Delete(t, namespace("shop"))
				api.Pass(grace + 300*time.Millisecond)
				if left := len(kittest.List[corev1.ConfigMap](t, api, "shop")); left > 0 || api.Get(t, namespace("shop")) {
					t.Errorf("%d are left; writes: %v", left, api.Writes())
				}
				if pages.Load() != int64(test.wantPages) || alone.Load() != int64(test.wantAlone) {
					t.Errorf("%d pages and %d objects were deleted, want %d and %d", pages.Load(), alone.Load(), test.wantPages, test.wantAlone)
				}
				if gauge.Most() != test.wantAtOnce {
					t.Errorf("%d requests at once, want %d", gauge.Most(), test.wantAtOnce)
				}
				if !api.Get(t, configMap("other", "m0")) {
					t.Error("another namespace was emptied, too")
				}
			})
		})
	}
}

// TestOneThatWaitsForItsDependentsIsToldNotTo: it was deleted in the foreground before its namespace was.
func TestOneThatWaitsForItsDependentsIsToldNotTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, namespace("shop"))
		for i := range 150 {
			api.Create(t, configMap("shop", fmt.Sprintf("m%03d", i)))
		}
		foreground := metav1.DeletePropagationForeground
		api.DeleteWith(t, configMap("shop", "m120"), metav1.DeleteOptions{PropagationPolicy: &foreground})
		api.Run(t, Descriptor())
		api.Settle()
		api.Delete(t, namespace("shop"))
		api.Pass(grace + 300*time.Millisecond)
		if api.Get(t, namespace("shop")) {
			t.Errorf("still there; writes: %v", api.Writes())
		}
	})
}

// TestAStopInTheMiddleFinalizesNothing: the kinds that were not come to may have objects.
func TestAStopInTheMiddleFinalizesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, namespace("shop"))
		widget := func(n int) *unstructured.Unstructured {
			return custom(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: fmt.Sprint("Widget", n)}, "w")
		}
		const kinds = 3 * kindsAtOnce
		for n := range kinds {
			api.AddKind(widget(n).GroupVersionKind(), fmt.Sprint("widgets", n), true)
			api.Create(t, widget(n))
		}
		running := api.Run(t, Descriptor())
		api.Settle()
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "list" && r.Namespace == "shop" {
				time.Sleep(time.Second)
			}
			return nil
		})
		api.Delete(t, namespace("shop"))
		time.Sleep(grace + 500*time.Millisecond)
		running.Stop()
		left := 0
		for n := range kinds {
			if api.Get(t, widget(n)) {
				left++
			}
		}
		if left == 0 || !api.Get(t, namespace("shop")) {
			t.Fatalf("%d objects are left of %d, and the namespace is there: %t", left, kinds, api.Get(t, namespace("shop")))
		}
		if c := condition(t, api, "shop", corev1.NamespaceDeletionContentFailure); c.Type != "" {
			t.Errorf("the stop is told as a failure: %+v", c)
		}
	})
}

// TestOneRefusalOfAKindIsReported: those of thousands of objects fit into no condition, and come in another order each time.
func TestOneRefusalOfAKindIsReported(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, namespace("shop"))
		api.AddKind(gvk, "widgets", true)
		api.Serve(schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: "widgets"}, true)
		for i := range 100 {
			api.Create(t, custom(gvk, fmt.Sprintf("w%03d", i)))
		}
		api.React(func(r *kittest.Request) *kittest.Reaction {
			switch {
			case r.Resource.Resource != "widgets":
			case r.Verb == "deletecollection":
				return kittest.Refuse(405, "no")
			case r.Verb == "delete" && r.Name != "w000":
				return kittest.Refuse(403, "not "+r.Name)
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Settle()
		api.Delete(t, namespace("shop"))
		api.Pass(30 * time.Second)
		c := condition(t, api, "shop", corev1.NamespaceDeletionContentFailure)
		if c.Message != "Failed to delete all resource types, 1 remaining: not w001" {
			t.Errorf("condition = %+v", c)
		}
		reports := 0
		for _, w := range api.Writes() {
			if strings.HasPrefix(w, "update v1/namespaces/status") {
				reports++
			}
		}
		if reports != 1 {
			t.Errorf("the status was written %d times for one state", reports)
		}
	})
}

func TestAKindThatCannotBeDeletedKeepsTheNamespaceAndNoOtherKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s"}}
		api := kittest.New(t, namespace("shop"), configMap("shop", "a"), secret)
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if strings.HasPrefix(r.Verb, "delete") && r.Resource.Resource == "configmaps" {
				return kittest.Refuse(403, "a webhook says no")
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Settle()
		api.Delete(t, namespace("shop"))
		api.Pass(time.Minute)
		if api.Get(t, secret) {
			t.Error("the Secret has to go although config maps cannot be deleted")
		}
		c := condition(t, api, "shop", corev1.NamespaceDeletionContentFailure)
		if c.Status != corev1.ConditionTrue || c.Reason != "ContentDeletionFailed" || c.Message != "Failed to delete all resource types, 1 remaining: a webhook says no" {
			t.Errorf("condition = %+v", c)
		}
		api.Unreact()
		api.Pass(70 * time.Second)
		if api.Get(t, namespace("shop")) {
			t.Error("still there after the webhook has come to reason")
		}
	})
}

// TestManyNamespacesGoTogether is the report of minutes for each of 200 namespaces. Each request takes 5 ms.
func TestManyNamespacesGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 200
		api := kittest.New(t)
		for i := range many {
			api.Create(t, namespace(fmt.Sprintf("ns-%d", i)))
		}
		var discoveries atomic.Int64
		b := &broken{edit: func(l []*metav1.APIResourceList) []*metav1.APIResourceList { discoveries.Add(1); return l }}
		run(t, api, b)
		api.Settle()
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb != "watch" {
				time.Sleep(5 * time.Millisecond)
			}
			return nil
		})
		for i := range many {
			api.Delete(t, namespace(fmt.Sprintf("ns-%d", i)))
		}
		api.Pass(20 * time.Second)
		if left := len(kittest.List[corev1.Namespace](t, api, "")); left != 0 {
			t.Errorf("%d of %d namespaces are left after 20 seconds", left, many)
		}
		if n := discoveries.Load(); n > 20 {
			t.Errorf("the kinds were asked for %d times; namespaces deleted together share a list", n)
		}
	})
}

func TestANamespaceOfTheSameNameMadeAnewIsNotEmptied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := namespace("shop")
		api := kittest.New(t, old)
		api.Run(t, Descriptor())
		api.Settle()
		api.Delete(t, old)
		api.Pass(2 * time.Second)
		api.Remove(t, old)
		api.Create(t, namespace("shop"))
		api.Create(t, configMap("shop", "a"))
		api.Pass(time.Minute)
		api.Expect(t)
	})
}

func TestFlagsAreValidated(t *testing.T) {
	if errs := (&options{resync: -1}).validate(); len(errs) != 2 {
		t.Errorf("errors = %v, want one for each flag", errs)
	}
	if errs := (&options{workers: 1}).validate(); len(errs) != 0 {
		t.Errorf("errors = %v, want none where no period is asked for", errs)
	}
}
