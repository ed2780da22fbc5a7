package tainteviction

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orrery/kit/kittest"
)

func retaint(t *testing.T, api *kittest.API, name string, taints ...corev1.Taint) {
	t.Helper()
	n := node(name)
	api.Get(t, n)
	n.Spec.Taints = taints
	api.Update(t, n)
}

func TestAnEvictedPodIsMarkedAndThenDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, node("n", taint("a")), pod("p", "n"))
		api.Run(t, Descriptor())
		api.Settle()
		if got, want := api.Writes(), []string{"patch v1/pods/status default/p", "delete v1/pods default/p"}; !slices.Equal(got, want) {
			t.Fatalf("writes = %q, want %q", got, want)
		}
		p := pod("p", "")
		api.Get(t, p)
		if p.DeletionGracePeriodSeconds == nil || *p.DeletionGracePeriodSeconds != 30 {
			t.Errorf("grace period = %v, want the pod's own", p.DeletionGracePeriodSeconds)
		}
		c := p.Status.Conditions
		if len(c) != 1 || c[0].Type != corev1.DisruptionTarget || c[0].Status != corev1.ConditionTrue || c[0].Reason != "DeletionByTaintManager" ||
			c[0].Message != "Taint manager: deleting due to NoExecute taint" || c[0].ObservedGeneration != 1 || p.Status.ObservedGeneration != 0 {
			t.Errorf("status = %+v", p.Status)
		}
		if got := events(api); !slices.Equal(got, []string{"Normal TaintManagerEviction Pod default/p: Marking for deletion Pod default/p"}) {
			t.Errorf("events = %q", got)
		}
		// While the pod is terminating, further taints have no effect.
		api.TakeWrites()
		retaint(t, api, "n", taint("a"), taint("b"))
		api.Pass(20 * time.Second)
		api.Expect(t)
		if got := events(api); len(got) != 1 {
			t.Errorf("events = %q, want no further one", got)
		}
	})
}

// TestAPodThatIsStoppingAnywayIsMarked, so that its owner does not count it as failed.
func TestAPodThatIsStoppingAnywayIsMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pod("p", "n")
		api := kittest.New(t, node("n"), p)
		api.Run(t, Descriptor())
		api.Settle()
		api.Delete(t, p)
		api.Settle()
		retaint(t, api, "n", taint("a"))
		api.Settle()
		if api.Get(t, p); len(p.Status.Conditions) != 1 || p.Status.Conditions[0].Type != corev1.DisruptionTarget {
			t.Errorf("conditions = %+v, want the disruption target", p.Status.Conditions)
		}
	})
}

func TestAFailedEvictionIsTriedAgainAndAnnouncedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, node("n", taint("a")), pod("p", "n"))
		refused := 0
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "delete" && refused < 4 {
				refused++
				return kittest.Refuse(429, "slow down")
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Pass(2 * time.Minute)
		if !gone(t, api, "p") || refused != 4 {
			t.Errorf("gone = %t after %d refusals", gone(t, api, "p"), refused)
		}
		if got := events(api); len(got) != 1 {
			t.Errorf("events = %q, want one", got)
		}
	})
}

// TestAWebhookThatRefusesAnEvictionOnlyDelaysIt: a refusal is no reason to give up (k/k#140639), nor to ask all the time.
func TestAWebhookThatRefusesAnEvictionOnlyDelaysIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, node("n", taint("a")), pod("p", "n"))
		refused := 0
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "delete" {
				refused++
				return kittest.Refuse(403, "not now")
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Pass(time.Hour)
		if refused < 60 || refused > 90 {
			t.Errorf("asked %d times in an hour, want once a minute", refused)
		}
		api.Unreact()
		api.Pass(time.Minute + time.Second)
		if !gone(t, api, "p") {
			t.Error("still there after the refusals ended")
		}
	})
}

// TestTheTimeCountsFromWhenThisProcessSawTheTaint: a new leader starts counting again, as upstream does.
func TestTheTimeCountsFromWhenThisProcessSawTheTaint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, node("n", taint("a")), pod("p", "n", tolerates("a", 300)))
		first := api.Run(t, Descriptor())
		api.Pass(200 * time.Second)
		first.Stop()
		api.Run(t, Descriptor())
		api.Pass(299 * time.Second)
		if gone(t, api, "p") {
			t.Error("went before 300 seconds under the new leader")
		}
		api.Pass(2 * time.Second)
		if !gone(t, api, "p") {
			t.Error("still there after 301 seconds under the new leader")
		}
	})
}

func TestTolerationsMayChangeWhileATimeRuns(t *testing.T) {
	for _, tc := range []struct {
		name        string
		tolerations []corev1.Toleration
		goneAfter   time.Duration // since the taint; 0 is never
		cancelled   bool
	}{
		{"for ever now", []corev1.Toleration{tolerates("a")}, 0, true},
		{"not at all now", nil, 5 * time.Second, true},
		{"for no time now", []corev1.Toleration{tolerates("a", 0)}, 5 * time.Second, true},
		{"shorter now: the time that was set stands", []corev1.Toleration{tolerates("a", 7)}, 10 * time.Second, false},
		{"longer now: the time that was set stands", []corev1.Toleration{tolerates("a", 60)}, 10 * time.Second, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pod("p", "n", tolerates("a", 10))
				api := kittest.New(t, node("n", taint("a")), p)
				api.Run(t, Descriptor())
				api.Pass(5 * time.Second)
				p.Spec.Tolerations = tc.tolerations
				api.Update(t, p)
				var after time.Duration
				for s := 5 * time.Second; s <= 2*time.Minute && after == 0; s += time.Second {
					api.Pass(10 * time.Millisecond)
					if gone(t, api, "p") {
						after = s
					}
					api.Pass(990 * time.Millisecond)
				}
				if after != tc.goneAfter {
					t.Errorf("gone after %s, want %s", after, tc.goneAfter)
				}
				cancelled := slices.ContainsFunc(events(api), func(e string) bool { return strings.HasSuffix(e, "Cancelling deletion of Pod default/p") })
				if cancelled != tc.cancelled {
					t.Errorf("cancelled = %t, want %t; events %q", cancelled, tc.cancelled, events(api))
				}
			})
		})
	}
}

func TestADeletedNodeCallsNothingOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node("n", taint("a"))
		api := kittest.New(t, n, pod("p", "n", tolerates("a", 10)))
		api.Run(t, Descriptor())
		api.Pass(5 * time.Second)
		api.Remove(t, n)
		api.Pass(6 * time.Second)
		if !gone(t, api, "p") {
			t.Error("the eviction was decided while the node had the taint")
		}
	})
}

// TestANodeThatIsCreatedAgainHasTaintsOfItsOwn: pods that outlive their node, which is registered again without the taint,
// are not evicted for the taint of the earlier one. If there is such a taint again, they tolerate it for as long as ever.
func TestANodeThatIsCreatedAgainHasTaintsOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node("n", taint("a"))
		api := kittest.New(t, n, pod("p", "n", tolerates("a", 10)))
		api.Run(t, Descriptor())
		api.Pass(5 * time.Second)
		api.Remove(t, n)
		api.Pass(time.Second)
		api.Create(t, node("n"))
		api.Pass(time.Second)
		if got := events(api); !slices.Equal(got, []string{"Normal TaintManagerEviction Pod default/p: Cancelling deletion of Pod default/p"}) {
			t.Errorf("events = %q, want the cancellation", got)
		}
		retaint(t, api, "n", taint("a"))
		api.Pass(9 * time.Second)
		if gone(t, api, "p") {
			t.Error("evicted 9 s after the new taint, of which it tolerates 10")
		}
		api.Pass(2 * time.Second)
		if !gone(t, api, "p") {
			t.Error("still there 11 s after the new taint")
		}
	})
}

func TestASuccessorOfTheSameNameIsNotHit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := pod("web-0", "n", tolerates("a", 10))
		api := kittest.New(t, node("n", taint("a")), node("m"), old)
		api.Run(t, Descriptor())
		api.Pass(9 * time.Second)
		api.Remove(t, old)
		api.Create(t, pod("web-0", "m"))
		api.Pass(time.Minute)
		if gone(t, api, "web-0") {
			t.Error("the pod that took the name was deleted on another node")
		}
		api.Expect(t)
	})
}

// TestASuccessorHasATimeOfItsOwn: a pod of the same name on the same node is evicted for the next taint, and no earlier
// than it tolerates.
func TestASuccessorHasATimeOfItsOwn(t *testing.T) {
	for name, away := range map[string]bool{"after the taint went": true, "under the same taint": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := kittest.New(t, node("n", taint("a")), pod("web-0", "n", tolerates("a", 10)))
				api.Run(t, Descriptor())
				api.Pass(11 * time.Second)
				if !gone(t, api, "web-0") {
					t.Fatal("the first one is still there")
				}
				if away {
					retaint(t, api, "n")
				}
				api.Remove(t, pod("web-0", ""))
				api.Create(t, pod("web-0", "n", tolerates("a", 10)))
				api.Pass(time.Second)
				retaint(t, api, "n", taint("a"))
				api.Pass(8 * time.Second)
				if gone(t, api, "web-0") {
					t.Error("its successor went before its time")
				}
				api.Pass(4 * time.Second)
				if !gone(t, api, "web-0") {
					t.Error("its successor was not evicted")
				}
			})
		})
	}
}

// TestTheRestOfTheTaintsDecides: if the taint that limited the time is removed, a pod that tolerates the others for ever
// stays.
func TestTheRestOfTheTaintsDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, node("n", taint("team"), taint("lost")), pod("p", "n", tolerates("team"), tolerates("lost", 30)))
		api.Run(t, Descriptor())
		api.Pass(20 * time.Second)
		retaint(t, api, "n", taint("team"))
		api.Pass(time.Minute)
		if gone(t, api, "p") {
			t.Error("the pod was deleted though it tolerates what is left")
		}
		if got := events(api); !slices.Equal(got, []string{"Normal TaintManagerEviction Pod default/p: Cancelling deletion of Pod default/p"}) {
			t.Errorf("events = %q, want the cancellation", got)
		}
	})
}

// TestManyPendingDeletionsAreCheap: there was a bug by which memory grew with each pod that came and went. The bounds are
// wide: upstream needs a goroutine's timer and two strings per pod.
func TestManyPendingDeletionsAreCheap(t *testing.T) {
	if testing.Short() {
		t.Skip("10,000 pods")
	}
	synctest.Test(t, func(t *testing.T) {
		const many = 10000
		api := kittest.New(t, node("n"))
		for i := range many {
			api.Create(t, pod(fmt.Sprintf("p%d", i), "n", tolerates("a", 3600)))
		}
		api.Run(t, Descriptor())
		api.Settle()
		goroutines, before := runtime.NumGoroutine(), heap()
		retaint(t, api, "n", taint("a"))
		api.Settle()
		each := (int64(heap()) - int64(before)) / many
		if extra := runtime.NumGoroutine() - goroutines; extra > 10 || each > 2048 {
			t.Errorf("%d pending deletions take %d bytes each and %d goroutines", many, each, extra)
		}
		calls := 0
		api.React(func(r *kittest.Request) *kittest.Reaction {
			calls++
			return nil
		})
		api.Pass(30 * time.Minute)
		if calls > 20 { // watches that are opened again
			t.Errorf("%d calls in half an hour of waiting", calls)
		}
		retaint(t, api, "n")
		api.Settle()
		if left := (int64(heap()) - int64(before)) / many; left > 1024 {
			t.Errorf("%d bytes for each are left after the taint went", left)
		}
		api.Pass(time.Hour)
		api.Expect(t)
	})
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestANewPodIsNotEvictedForATaintThatIsGone: the scheduler may see that a taint is removed, and bind a pod to the node,
// before this controller sees it (kubernetes/kubernetes#119862).
func TestANewPodIsNotEvictedForATaintThatIsGone(t *testing.T) {
	for _, tc := range []struct {
		name  string
		again bool // the taint comes back, before its going was seen
		gone  bool // the node goes
	}{{name: "for good"}, {name: "for a second", again: true}, {name: "with its node", gone: true}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := node("n", taint("a"))
				api := kittest.New(t, n)
				api.Run(t, Descriptor())
				api.Settle()
				api.DelayWatch(corev1.SchemeGroupVersion.WithKind("Node"), 5*time.Second)
				if tc.gone {
					api.Remove(t, n)
				} else {
					retaint(t, api, "n")
				}
				api.Create(t, pod("p", "n"))
				api.Pass(time.Second)
				if gone(t, api, "p") {
					t.Error("evicted for a taint that the node no longer has")
				}
				if tc.again {
					retaint(t, api, "n", taint("a"))
				}
				api.Pass(time.Minute)
				if gone(t, api, "p") != tc.again {
					t.Errorf("gone = %t, want %t", !tc.again, tc.again)
				}
				if got := events(api); (len(got) > 0) != tc.again {
					t.Errorf("events = %q", got)
				}
			})
		})
	}
}

func TestTheNodeIsAskedForOnceForANewPodOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, node("n"), pod("old", "n"))
		api.Run(t, Descriptor())
		api.Settle()
		var gets atomic.Int32
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "get" && gets.Add(1) <= 3 {
				return kittest.Refuse(500, "not now")
			}
			return nil
		})
		retaint(t, api, "n", taint("a"))
		api.Settle()
		if !gone(t, api, "old") || gets.Load() != 0 {
			t.Errorf("gone = %t after %d requests for the node", gone(t, api, "old"), gets.Load())
		}
		api.Create(t, pod("new", "n"))
		api.Create(t, pod("tolerant", "n", tolerates("a")))
		api.Create(t, pod("patient", "n", tolerates("a", 5)))
		api.Pass(time.Minute)
		if !gone(t, api, "new") || !gone(t, api, "patient") || gone(t, api, "tolerant") || gets.Load() != 4 {
			t.Errorf("gone = %t, %t, %t after %d requests for the node", gone(t, api, "new"), gone(t, api, "patient"), gone(t, api, "tolerant"), gets.Load())
		}
	})
}
