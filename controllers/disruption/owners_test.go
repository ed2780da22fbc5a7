package disruption

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/client"
	"orrery/kit/kittest"
)

func TestPodsAreExpectedAsTheirOwnersScaleSays(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T, api *kittest.API)
		want string
	}{
		{"a ReplicaSet", func(t *testing.T, api *kittest.API) { populate(t, api, replicaSet("rs", 5), 3) },
			"allows 0: healthy 3, desired 4, expected 5; False InsufficientPods"},
		{"a StatefulSet", func(t *testing.T, api *kittest.API) { populate(t, api, statefulSet("ss", 3), 3) },
			"allows 1: healthy 3, desired 2, expected 3; True SufficientPods"},
		{"a ReplicationController", func(t *testing.T, api *kittest.API) { populate(t, api, replicationController("rc", 4), 4) },
			"allows 1: healthy 4, desired 3, expected 4; True SufficientPods"},
		{"a Deployment with two ReplicaSets, which counts once", func(t *testing.T, api *kittest.API) {
			d := deployment("d", 3)
			api.Create(t, d)
			populate(t, api, replicaSet("old", 1, d), 1)
			populate(t, api, replicaSet("new", 3, d), 3)
		}, "allows 2: healthy 4, desired 2, expected 3; True SufficientPods"},
		{"a ReplicaSet of a custom owner", func(t *testing.T, api *kittest.API) {
			rs := replicaSet("rs", 3)
			rs.OwnerReferences = refs("example.com/v1", "Rollout", []client.Object{&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "r"}}})
			populate(t, api, rs, 3)
		}, "allows 1: healthy 3, desired 2, expected 3; True SufficientPods"},
		{"a ReplicaSet whose Deployment is gone", func(t *testing.T, api *kittest.API) {
			d := deployment("d", 7)
			d.UID = "gone"
			populate(t, api, replicaSet("rs", 3, d), 3)
		}, "allows 1: healthy 3, desired 2, expected 3; True SufficientPods"},
		{"several owners", func(t *testing.T, api *kittest.API) {
			populate(t, api, replicaSet("a", 2), 2)
			populate(t, api, statefulSet("b", 3), 3)
		}, "allows 1: healthy 5, desired 4, expected 5; True SufficientPods"},
		{"owners of more pods than a number holds", func(t *testing.T, api *kittest.API) {
			populate(t, api, replicaSet("a", math.MaxInt32), 2)
			populate(t, api, statefulSet("b", math.MaxInt32), 2)
		}, "allows 0: healthy 4, desired 2147483646, expected 2147483647; False InsufficientPods"},
		{"a custom owner with a scale", func(t *testing.T, api *kittest.API) { populate(t, api, widget("w", 4), 4) },
			"allows 1: healthy 4, desired 3, expected 4; True SufficientPods"},
		{"a custom owner with a scale below zero", func(t *testing.T, api *kittest.API) {
			populate(t, api, widget("w", -4), 2)
			populate(t, api, replicaSet("rs", 3), 1)
		}, "allows 1: healthy 3, desired 2, expected 3; True SufficientPods"},
		{"unmanaged pods beside a ReplicaSet", func(t *testing.T, api *kittest.API) {
			populate(t, api, replicaSet("rs", 2), 2)
			api.Create(t, pod("bare"))
		}, "allows 2: healthy 3, desired 1, expected 2; True SufficientPods"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := kittest.New(t)
				api.AddKind(widgets, "widgets", true)
				c.make(t, api)
				api.Create(t, budget("b", atMost("1")))
				api.Run(t, Descriptor())
				api.Settle()
				api.Expect(t, "update policy/v1/poddisruptionbudgets/status default/b")
				expectState(t, api, "b", c.want)
			})
		})
	}
}

func TestOwnersThatCannotBeReckonedWith(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T, api *kittest.API)
		want string
	}{
		{"a ReplicaSet that does not exist", func(t *testing.T, api *kittest.API) {
			rs := replicaSet("rs", 3)
			rs.UID = "gone"
			populate(t, api, rs, 2)
		}, `found no controllers for pod "rs-0"`},
		{"a ReplicaSet of the same name", func(t *testing.T, api *kittest.API) {
			api.Create(t, replicaSet("rs", 3))
			rs := replicaSet("rs", 3)
			rs.UID = "old"
			populate(t, api, rs, 2)
		}, `found no controllers for pod "rs-0"`},
		{"a custom owner that does not exist", func(t *testing.T, api *kittest.API) {
			w := widget("w", 3)
			w.SetUID("gone")
			populate(t, api, w, 2)
		}, `found no controllers for pod "w-0"`},
		{"a custom owner without a scale", func(t *testing.T, api *kittest.API) {
			api.WithoutScale(widgets)
			populate(t, api, widget("w", 3), 2)
		}, "widgets.example.com does not implement the scale subresource"},
		{"an owner of a kind that is not served", func(t *testing.T, api *kittest.API) {
			w := widget("w", 3)
			w.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Gadget"})
			w.SetUID("u")
			populate(t, api, w, 2)
		}, `no matches for kind "Gadget" in version "example.org/v1"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := kittest.New(t)
				api.AddKind(widgets, "widgets", true)
				c.make(t, api)
				for _, b := range []*policyv1.PodDisruptionBudget{budget("whole", atLeast("1")), budget("share", atLeast("50%")), budget("most", atMost("1"))} {
					b.Status.DisruptionsAllowed = 1 // as it was while all was well
					api.Create(t, b)
				}
				api.Run(t, Descriptor())
				api.Settle()
				expectState(t, api, "whole", "allows 1: healthy 2, desired 1, expected 2; True SufficientPods")
				for _, name := range []string{"share", "most"} {
					b := expectState(t, api, name, "allows 0: healthy 0, desired 0, expected 0; False SyncFailed")
					if got := b.Status.Conditions[0].Message; got != c.want {
						t.Errorf("%s: %s\nwant %s", name, got, c.want)
					}
					if got := reasons(api, "PodDisruptionBudget default/"+name); !slices.Equal(got, []string{"CalculateExpectedPodCountFailed"}) {
						t.Errorf("%s: events %v", name, got)
					}
				}
				want := "Warning PodDisruptionBudget default/most: Failed to calculate the number of expected pods: " + c.want
				if got := messages(api, "CalculateExpectedPodCountFailed"); !slices.Contains(got, want) {
					t.Errorf("events %q, want %q among them", got, want)
				}
			})
		})
	}
}

// asked counts the reads of scales.
func asked(api *kittest.API) *atomic.Int64 {
	n := new(atomic.Int64)
	api.React(func(r *kittest.Request) *kittest.Reaction {
		if r.Verb == "get" && r.Subresource == "scale" {
			n.Add(1)
		}
		return nil
	})
	return n
}

func TestManyPodsOfOneOwnerCostFewQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		api.AddKind(widgets, "widgets", true)
		n := asked(api)
		w := widget("w", 100)
		pods := populate(t, api, w, 100)
		for _, p := range pods {
			api.Update(t, unready(p))
		}
		api.Create(t, budget("b", atMost("10%")))
		api.Create(t, budget("c", atLeast("10%")))
		api.Run(t, Descriptor())
		api.Settle()
		if n.Load() > 2 {
			t.Errorf("asked %d times for the scale at the start, want 1 or 2", n.Load())
		}
		n.Store(0)
		for _, p := range pods { // one every 100 ms
			p.Status.Conditions[0].Status = corev1.ConditionTrue
			api.Update(t, p)
			api.Pass(100 * time.Millisecond)
		}
		api.Pass(5 * time.Second)
		expectState(t, api, "b", "allows 10: healthy 100, desired 90, expected 100; True SufficientPods")
		expectState(t, api, "c", "allows 90: healthy 100, desired 10, expected 100; True SufficientPods")
		if n.Load() > 25 {
			t.Errorf("asked %d times for the scale in 10 seconds, want about one each second", n.Load())
		}
		n.Store(0)
		api.Pass(time.Hour)
		if n.Load() != 0 {
			t.Errorf("asked %d times for the scale while nothing changed", n.Load())
		}
	})
}

func TestABrokenScaleMakesNoStormAndHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		api.AddKind(widgets, "widgets", true)
		var broken atomic.Bool
		var n atomic.Int64
		broken.Store(true)
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Subresource == "scale" && broken.Load() {
				n.Add(1)
				return kittest.Refuse(500, "conversion webhook failed")
			}
			return nil
		})
		w := widget("w", 3)
		pods := populate(t, api, w, 3)
		good := populate(t, api, replicaSet("rs", 2), 2)
		for _, p := range good {
			p.Labels = app("other")
			api.Update(t, p)
		}
		api.Create(t, budget("b", atMost("1")))
		api.Create(t, budget("good", atMost("1"), selecting(&metav1.LabelSelector{MatchLabels: app("other")})))
		api.Run(t, Descriptor())
		api.Settle()
		b := expectState(t, api, "b", "allows 0: healthy 0, desired 0, expected 0; False SyncFailed")
		expectState(t, api, "good", "allows 1: healthy 2, desired 1, expected 2; True SufficientPods")
		if !strings.Contains(b.Status.Conditions[0].Message, "conversion webhook failed") {
			t.Errorf("condition says %q", b.Status.Conditions[0].Message)
		}
		api.TakeWrites()
		for i := range 600 { // ten minutes in which the pods change every second
			p := pods[i%3]
			p.Status.Conditions[0].Status = map[corev1.ConditionStatus]corev1.ConditionStatus{"True": "False", "False": "True"}[p.Status.Conditions[0].Status]
			api.Update(t, p)
			api.Pass(time.Second)
		}
		if n.Load() > 20 {
			t.Errorf("asked %d times for a broken scale in 10 minutes", n.Load())
		}
		api.Expect(t) // nothing is written again and again
		broken.Store(false)
		api.Pass(time.Minute + time.Second)
		b = expectState(t, api, "b", "allows 1: healthy 3, desired 2, expected 3; True SufficientPods")
		if len(b.Status.Conditions) != 1 || b.Status.Conditions[0].Message != "" {
			t.Errorf("conditions %v, want one without a message", b.Status.Conditions)
		}
	})
}

// TestAnOwnerThatDoesNotAnswerHoldsUpNobody has many owners of a kind whose scales cannot be read.
func TestAnOwnerThatDoesNotAnswerHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gadgets := schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Gadget"}
		api := kittest.New(t)
		api.AddKind(widgets, "widgets", true)
		api.AddKind(gadgets, "gadgets", true)
		var n atomic.Int64
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Subresource == "scale" && r.Resource.Resource == "gadgets" {
				n.Add(1)
				time.Sleep(fetchTimeout) // then the caller gives up
				return &kittest.Reaction{Err: context.DeadlineExceeded}
			}
			return nil
		})
		for i := range 40 {
			g := widget("g"+string(rune('a'+i%26))+string(rune('a'+i/26)), 1)
			g.SetGroupVersionKind(gadgets)
			api.Create(t, g)
			p := pod(g.GetName(), g)
			p.Labels = app(g.GetName())
			api.Create(t, p)
			b := budget(g.GetName(), atMost("1"), selecting(&metav1.LabelSelector{MatchLabels: app(g.GetName())}))
			b.Status.DisruptionsAllowed = 1
			api.Create(t, b)
		}
		api.Run(t, Descriptor())
		api.Pass(fetchTimeout / 2)
		rs := replicaSet("rs", 2)
		api.Create(t, rs)
		api.Pass(time.Millisecond) // a pod that is cached before its owner has the server asked, in a line behind the gadgets
		populate(t, api, rs, 2)
		api.Create(t, budget("good", atMost("1")))
		api.Pass(100 * time.Millisecond)
		expectState(t, api, "good", "allows 1: healthy 2, desired 1, expected 2; True SufficientPods")
		api.Pass(fetchTimeout)
		for _, b := range kittest.List[policyv1.PodDisruptionBudget](t, api, ns) {
			if b.Name != "good" && !strings.HasPrefix(state(b), "allows 0:") {
				t.Errorf("budget %s %s, want none allowed", b.Name, state(b))
			}
		}
		w := widget("w", 3)
		for _, p := range populate(t, api, w, 3) {
			p.Labels = app("late")
			api.Update(t, p)
		}
		api.Create(t, budget("late", atMost("1"), selecting(&metav1.LabelSelector{MatchLabels: app("late")})))
		api.Pass(time.Second)
		expectState(t, api, "late", "allows 1: healthy 3, desired 2, expected 3; True SufficientPods")
		n.Store(0)
		api.Pass(10 * time.Minute)
		if n.Load() > 20 {
			t.Errorf("asked %d times in 10 minutes for the scales of a kind that does not answer", n.Load())
		}
	})
}

func TestAKindThatComesLaterIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		w := widget("w", 3)
		w.SetUID("w")
		populate(t, api, w, 3)
		api.Create(t, budget("b", atMost("1")))
		api.Run(t, Descriptor())
		api.Settle()
		expectState(t, api, "b", "allows 0: healthy 0, desired 0, expected 0; False SyncFailed")
		api.AddKind(widgets, "widgets", true)
		api.Create(t, w)
		for _, p := range kittest.List[corev1.Pod](t, api, ns) {
			p.OwnerReferences[0].UID = w.GetUID()
			api.Update(t, p)
		}
		api.Pass(2 * time.Minute)
		expectState(t, api, "b", "allows 1: healthy 3, desired 2, expected 3; True SufficientPods")
	})
}
