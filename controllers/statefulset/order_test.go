package statefulset

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orrery/kit/kittest"
)

func TestAnOrderedSetMakesOnePodAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 3))
		if got := c.podWrites(); got != "create web-0, create web-1, create web-2" {
			t.Errorf("it did %s", got)
		}
		if got := c.numbers("web"); got != [5]int32{3, 3, 3, 3, 3} {
			t.Errorf("status %v", got)
		}
		s := c.set("web").Status
		if revs := c.revisions(); len(revs) != 1 || s.CurrentRevision != revs[0].Name || s.UpdateRevision != revs[0].Name || s.ObservedGeneration != 1 || *s.CollisionCount != 0 {
			t.Errorf("status %+v with %d revisions", s, len(revs))
		}
	})
}

func TestAnOrderedSetWaitsForAPodThatIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newSet("web", 3))
		c.kubelets.hold(true)
		c.Run(t, c.kubelets.init)
		c.Run(t, Descriptor())
		c.Pass(10 * time.Minute)
		if got := c.podWrites(); got != "create web-0" {
			t.Errorf("it did %s", got)
		}
		if got := c.numbers("web"); got != [5]int32{1, 0, 0, 1, 1} {
			t.Errorf("status %v", got)
		}
		c.change("web", replicas(0))
		c.Pass(time.Minute)
		if got := c.podWrites(); got != "delete web-0" || c.pods() != "" {
			t.Errorf("scaled to 0 it did %s", got)
		}
	})
}

func TestAParallelSetMakesAndDeletesAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newSet("web", 5, parallel))
		c.kubelets.hold(true)
		c.Run(t, c.kubelets.init)
		c.Run(t, Descriptor())
		c.Pass(time.Second)
		if got := c.pods(); got != "web-0 web-1 web-2 web-3 web-4" {
			t.Errorf("pods %s though none is ready", got)
		}
		c.podWrites()
		c.change("web", replicas(1))
		c.Pass(100 * time.Millisecond)
		if got := c.pods(); got != "web-0" {
			t.Errorf("pods %s", got)
		}
	})
}

func TestScalingDownStartsAtTheTop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 4))
		c.podWrites()
		c.change("web", replicas(1))
		c.Pass(500 * time.Millisecond)
		if got := c.pods(); got != "-web-3 web-0 web-1 web-2" {
			t.Errorf("pods %s: the next one goes once the last is gone", got)
		}
		c.Pass(time.Minute)
		if got := c.podWrites(); got != "delete web-3, delete web-2, delete web-1" || c.pods() != "web-0" {
			t.Errorf("it did %s", got)
		}
	})
}

func TestScalingDownWaitsForBrokenPods(t *testing.T) {
	for name, c := range map[string]struct {
		broken []string
		want   string
	}{
		"the highest":          {[]string{"web-3"}, "delete web-3, delete web-2, delete web-1"},
		"a lower one":          {[]string{"web-2"}, "delete web-3, delete web-2, delete web-1"},
		"the highest and one":  {[]string{"web-3", "web-1"}, ""},
		"one that is to stay":  {[]string{"web-0"}, ""},
		"the highest and that": {[]string{"web-3", "web-0"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := start(t, newSet("web", 4))
				cl.podWrites()
				for _, pod := range c.broken {
					cl.changePod(pod, func(p *corev1.Pod) { p.Status.Conditions = nil })
				}
				cl.Pass(time.Second)
				cl.change("web", replicas(1))
				cl.Pass(time.Minute)
				if got := cl.podWrites(); got != c.want {
					t.Errorf("it did %q, want %q", got, c.want)
				}
			})
		})
	}
}

// kubernetes/kubernetes#123918
func TestScalingDownDoesNotWaitForThePodToBecomeAvailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newSet("web", 2, minReady(30)))
		c.Run(t, c.kubelets.init)
		c.Run(t, Descriptor())
		c.Pass(35 * time.Second)
		if got := c.numbers("web"); got[1] != 2 || got[2] != 1 {
			t.Fatalf("status %v", got)
		}
		c.change("web", replicas(1))
		c.Pass(5 * time.Second)
		if got := c.pods(); got != "web-0" {
			t.Errorf("pods %s", got)
		}
	})
}

// kubernetes/kubernetes#67250 and #60164: upstream keeps it so, and says so.
func TestABrokenPodIsNotReplacedByAGoodTemplate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 2, bad))
		c.change("web", good)
		c.Pass(time.Hour)
		if got := c.podWrites(); got != "create web-0" {
			t.Errorf("it did %s", got)
		}
		c.Delete(t, c.pod("web-0"))
		c.Pass(time.Minute)
		if got := c.pods(); got != "web-0 web-1" || c.numbers("web")[4] != 2 {
			t.Errorf("after the broken pod was deleted by hand: pods %s, numbers %v", got, c.numbers("web"))
		}
	})
}

// kubernetes/kubernetes#121142 has the report of pods that were removed too early.
func TestMovingTheStartMakesTheNewPodsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 3, from(2)))
		if got := c.pods(); got != "web-2 web-3 web-4" {
			t.Fatalf("pods %s", got)
		}
		c.podWrites()
		c.change("web", from(0))
		c.Pass(time.Minute)
		if got := c.podWrites(); got != "create web-0, create web-1, delete web-4, delete web-3" || c.pods() != "web-0 web-1 web-2" {
			t.Errorf("it did %s", got)
		}
		if got := c.numbers("web"); got != [5]int32{3, 3, 3, 3, 3} {
			t.Errorf("status %v", got)
		}
	})
}

// kube-controller-manager 1.37.2 makes no such pod either.
func TestNoPodIsMadeBeyondTheLastOrdinal(t *testing.T) {
	for name, opts := range map[string][]setOption{"ordered": nil, "parallel": {parallel}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t, newSet("web", 3, append(opts, from(2147483646), storing("data"))...))
				want := "Create Pod web-2147483648 in StatefulSet web failed error: ordinal 2147483648 is beyond 2147483647, the last one"
				if got := c.events("FailedCreate"); len(got) == 0 || got[0] != want {
					t.Errorf("events %q", got)
				}
				if got := c.pods(); got != "web-2147483646 web-2147483647" || c.numbers("web") != [5]int32{2, 2, 2, 2, 2} {
					t.Errorf("pods %s, status %v", got, c.numbers("web"))
				}
				c.change("web", replicas(1))
				c.Pass(time.Minute)
				if got := c.pods(); got != "web-2147483646" {
					t.Errorf("pods %s after scaling down", got)
				}
			})
		})
	}
}

// kubernetes/kubernetes#135428
func TestPodsAreAvailableOnTimeAndNotLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newSet("web", 3, minReady(5)))
		c.Run(t, c.kubelets.init)
		c.Run(t, Descriptor())
		for second := range int32(16) {
			// Times in the API are whole seconds, so a pod may seem ready up to a second earlier than it is.
			c.Pass(100 * time.Millisecond)
			want := second / 5
			if got := c.numbers("web"); got[2] != want || got[0] != min(3, want+1) {
				t.Errorf("after %d seconds: %v, want %d available", second, got, want)
			}
			c.Pass(900 * time.Millisecond)
		}
		c.TakeWrites()
		c.Pass(time.Hour)
		if got := c.TakeWrites(); len(got) > 0 {
			t.Errorf("with nothing to do it did %v", got)
		}
	})
}

func TestPodsAreAvailableOnTimeWhileOthersAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newSet("web", 2, parallel, minReady(90)))
		c.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" && r.Resource.Resource == "pods" && r.Object.GetName() == "web-1" {
				return kittest.Refuse(403, "exceeded quota")
			}
			return nil
		})
		c.Run(t, c.kubelets.init)
		c.Run(t, Descriptor())
		c.Pass(89 * time.Second)
		if got := c.numbers("web"); got[2] != 0 {
			t.Errorf("%v, want none available yet", got)
		}
		c.Pass(1500 * time.Millisecond)
		if got := c.numbers("web"); got[2] != 1 {
			t.Errorf("%v, want one available", got)
		}
	})
}

func TestFinishedPodsAreReplaced(t *testing.T) {
	for name, opts := range map[string][]setOption{"ordered": nil, "parallel": {parallel}} {
		for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
			t.Run(name+" "+string(phase), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := start(t, newSet("web", 3, opts...))
					before := c.pod("web-1").UID
					c.podWrites()
					c.changePod("web-1", func(p *corev1.Pod) { p.Status.Phase, p.Status.Conditions = phase, nil })
					c.Pass(time.Minute)
					if got := c.podWrites(); got != "delete web-1, create web-1" || c.pod("web-1").UID == before {
						t.Errorf("it did %s", got)
					}
					if got := c.numbers("web"); got != [5]int32{3, 3, 3, 3, 3} {
						t.Errorf("status %v", got)
					}
				})
			})
		}
	}
}

func TestATerminatingPodIsWaitedFor(t *testing.T) {
	for name, opts := range map[string][]setOption{"ordered": nil, "parallel": {parallel}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t, newSet("web", 2, opts...))
				c.changePod("web-0", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} })
				c.podWrites()
				c.Delete(t, c.pod("web-0"))
				c.Pass(10 * time.Minute)
				if got := c.podWrites(); got != "" {
					t.Errorf("it did %s", got)
				}
				if got := c.numbers("web"); got != [5]int32{2, 2, 2, 1, 1} {
					t.Errorf("status %v", got)
				}
			})
		})
	}
}

// The pods above hold the quota that those below wait for.
func TestAParallelSetScalesDownThoughPodsAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newSet("web", 2, parallel))
		var room atomic.Bool
		c.React(func(r *kittest.Request) *kittest.Reaction {
			switch {
			case r.Resource.Resource != "pods":
			case r.Verb == "delete":
				room.Store(true)
			case r.Verb == "create" && r.Object.GetName() == "web-3" && !room.Load():
				return kittest.Refuse(http.StatusForbidden, "pods is forbidden: exceeded quota")
			}
			return nil
		})
		c.Run(t, c.kubelets.init)
		c.Run(t, Descriptor())
		c.Pass(time.Minute)
		c.change("web", replicas(8))
		c.Pass(time.Minute)
		if got := c.pods(); got != "web-0 web-1 web-2 web-4" {
			t.Fatalf("pods %s", got)
		}
		c.change("web", replicas(4))
		c.Pass(10 * time.Minute)
		if got := c.pods(); got != "web-0 web-1 web-2 web-3" || c.numbers("web") != [5]int32{4, 4, 4, 4, 4} {
			t.Errorf("pods %s, status %v", got, c.numbers("web"))
		}
	})
}
