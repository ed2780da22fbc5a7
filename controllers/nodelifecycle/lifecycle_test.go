package nodelifecycle

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

func (c *cluster) node(name string) *corev1.Node {
	c.t.Helper()
	n := node(name, "", "")
	if !c.Get(c.t, n) {
		c.t.Fatalf("node %s is gone", name)
	}
	return n
}

func (c *cluster) report(name string, ready corev1.ConditionStatus) {
	n := c.node(name)
	n.Status.Conditions[0].Status, n.Status.Conditions[0].LastHeartbeatTime = ready, metav1.Now()
	c.Update(c.t, n)
}

func (c *cluster) lease(name string) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
	c.Get(c.t, l)
	return l
}

func (c *cluster) events(reason string) (out []string) {
	for _, e := range c.Events() {
		if e.Reason == reason {
			out = append(out, e.String())
		}
	}
	return out
}

func only(names ...string) func(string) bool {
	return func(n string) bool { return slices.Contains(names, n) }
}

// count counts the calls that the controller itself makes from now on.
func (c *cluster) count(match func(*kittest.Request) bool) *int {
	n := 0
	c.React(func(r *kittest.Request) *kittest.Reaction {
		if r.User == Name && match(r) {
			n++
		}
		return nil
	})
	return &n
}

// TestTheTaintComesWithTheVerdict is the report of five more seconds before the NoExecute taint. The cache of nodes
// lags, as it does on a busy server.
func TestTheTaintComesWithTheVerdict(t *testing.T) {
	for _, lag := range []time.Duration{0, 3 * time.Second} {
		t.Run(lag.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 1, 4)
				c.Run(t, Descriptor())
				c.live(2*time.Minute, nobody)
				c.DelayWatch(corev1.SchemeGroupVersion.WithKind("Node"), lag)
				var unknown, tainted time.Time
				silent := only("z0-n1")
				for tainted.IsZero() && time.Since(start(c)) < 10*time.Minute {
					for _, name := range c.nodes {
						if !silent(name) {
							l := c.lease(name)
							m := metav1.NowMicro()
							l.Spec.RenewTime = &m
							c.Update(t, l)
						}
					}
					for range 50 {
						c.Pass(100 * time.Millisecond)
						n := c.node("z0-n1")
						if unknown.IsZero() && condition(n, corev1.NodeReady).Status == corev1.ConditionUnknown {
							unknown = time.Now()
						}
						if tainted.IsZero() && hasNoExecute(n, corev1.TaintNodeUnreachable) {
							tainted = time.Now()
						}
					}
				}
				if unknown.IsZero() || tainted.IsZero() || tainted.Sub(unknown) > time.Second {
					t.Errorf("Unknown at %s, tainted %s later; want both in one pass", unknown, tainted.Sub(unknown))
				}
			})
		})
	}
}

// TestBothTaintsOfALostNodeComeTogether: a node that the cache shows late is not left without its NoSchedule taint, and
// the two stand in the order in which they always did.
func TestBothTaintsOfALostNodeComeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 4)
		c.Run(t, Descriptor())
		c.live(2*time.Minute, nobody)
		c.DelayWatch(corev1.SchemeGroupVersion.WithKind("Node"), 3*time.Second)
		c.live(90*time.Second, only("z0-n1"))
		want := "node.kubernetes.io/unreachable:NoSchedule node.kubernetes.io/unreachable:NoExecute"
		if got := strings.Join(taintTexts(c.node("z0-n1").Spec.Taints), " "); got != want {
			t.Errorf("taints %s; want %s", got, want)
		}
	})
}

// start returns when the cluster was made.
func start(c *cluster) time.Time { return c.node(c.nodes[0]).CreationTimestamp.Time }

func TestANewNodeCanBeUsedAtOnceWhenItIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 1)
		c.Run(t, Descriptor())
		c.Settle()
		n := node("new", "zone0", corev1.ConditionFalse, noSchedule(corev1.TaintNodeNotReady))
		c.Create(t, n)
		c.Pass(1200 * time.Millisecond)
		c.report("new", corev1.ConditionTrue)
		c.Pass(100 * time.Millisecond)
		if got := c.node("new").Spec.Taints; len(got) != 0 {
			t.Errorf("taints 100 ms after the node became ready: %v", taintTexts(got))
		}
	})
}

func TestNodesThatComeAndGoAreAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 1)
		c.Run(t, Descriptor())
		c.Pass(time.Second)
		c.Create(t, node("new", "", corev1.ConditionTrue))
		c.Pass(5 * time.Second)
		c.Remove(t, node("new", "", ""))
		c.Pass(5 * time.Second)
		want := []string{"Normal RegisteredNode Node z0-n0: Node z0-n0 event: Registered Node z0-n0 in Controller",
			"Normal RegisteredNode Node new: Node new event: Registered Node new in Controller"}
		if got := c.events("RegisteredNode"); !slices.Equal(got, want) {
			t.Errorf("events = %q, want %q", got, want)
		}
		want = []string{"Normal RemovingNode Node new: Node new event: Removing Node new from Controller"}
		if got := c.events("RemovingNode"); !slices.Equal(got, want) {
			t.Errorf("events = %q, want %q", got, want)
		}
	})
}

func TestAPassOverManyNodesReadsNoneOfThem(t *testing.T) {
	if testing.Short() {
		t.Skip("5,000 nodes")
	}
	synctest.Test(t, func(t *testing.T) {
		const many = 5000
		c := &cluster{API: kittest.New(t), t: t}
		for i := range many {
			c.Create(t, node(fmt.Sprintf("n%d", i), fmt.Sprintf("zone%d", i%3), corev1.ConditionTrue))
		}
		c.Run(t, Descriptor())
		c.Pass(time.Second)
		calls := c.count(func(*kittest.Request) bool { return true })
		c.Pass(40 * time.Second) // eight looks within the grace period
		if *calls != 0 {
			t.Errorf("%d calls for %d living nodes, want none", *calls, many)
		}
		if w := c.Writes(); len(w) != 0 {
			t.Errorf("%d writes, as %s", len(w), w[0])
		}
	})
}

func TestOnlyASilentNodeIsReadLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 10)
		c.Run(t, Descriptor())
		c.live(time.Minute, nobody)
		var names []string
		c.React(func(r *kittest.Request) *kittest.Reaction {
			if r.User == Name && r.Verb == "get" {
				names = append(names, r.Resource.Resource+" "+r.Name)
			}
			return nil
		})
		c.live(time.Minute, only("z0-n3"))
		if len(names) == 0 {
			t.Error("a node was given up without a look at the server")
		}
		for _, n := range names {
			if !strings.HasSuffix(n, " z0-n3") { // its Node too, where both loops taint it at once and one has to look again
				t.Errorf("read %s, which is not silent", n)
			}
		}
	})
}

// TestANodeThatIsBackInTheLastMomentIsSpared: its sign of life comes before the taint, and after all that the cache shows.
func TestANodeThatIsBackInTheLastMomentIsSpared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 4)
		c.Run(t, Descriptor())
		c.live(2*time.Minute, nobody)
		tries := 0
		c.React(func(r *kittest.Request) *kittest.Reaction {
			if r.User == Name && r.Resource.Resource == "nodes" && strings.Contains(string(r.Patch), "NoExecute") {
				if tries++; tries == 1 {
					c.report("z0-n0", corev1.ConditionTrue)
				}
			}
			return nil
		})
		c.live(65*time.Second, func(n string) bool { return n == "z0-n0" && tries == 0 })
		if tries != 1 {
			t.Errorf("tried %d times to taint the node, want once", tries)
		}
	})
}

// TestALeaseThatIsChangedByOthers: an annotation is no sign of life, and must not stop the judgement of anybody either.
func TestALeaseThatIsChangedByOthers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*coordinationv1.Lease)
	}{
		{"an annotation", func(l *coordinationv1.Lease) { l.Annotations = map[string]string{"a": time.Now().String()} }},
		{"no renew time", func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 1, 4)
				c.Run(t, Descriptor())
				c.live(time.Minute, nobody)
				touched := c.lease("z0-n0")
				tc.change(touched)
				c.Update(t, touched)
				c.live(2*time.Minute, only("z0-n0", "z0-n1"))
				for name, want := range map[string]corev1.ConditionStatus{"z0-n0": corev1.ConditionUnknown, "z0-n1": corev1.ConditionUnknown, "z0-n2": corev1.ConditionTrue} {
					if got := condition(c.node(name), corev1.NodeReady).Status; got != want {
						t.Errorf("%s: ready = %s, want %s", name, got, want)
					}
				}
			})
		})
	}
}

func TestANodeWhoseClockWasSetBackLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 3)
		c.Run(t, Descriptor())
		c.live(time.Minute, nobody)
		for range 60 {
			l := c.lease("z0-n0")
			m := metav1.NewMicroTime(time.Now().Add(-time.Hour))
			l.Spec.RenewTime = &m
			c.Update(t, l)
			c.live(5*time.Second, only("z0-n0"))
		}
		if got := condition(c.node("z0-n0"), corev1.NodeReady).Status; got != corev1.ConditionTrue {
			t.Errorf("ready = %s; it has renewed its lease all the time", got)
		}
	})
}

func TestALeaseThatCannotBeReadGivesNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 4)
		c.Run(t, Descriptor())
		c.live(time.Minute, nobody)
		c.React(func(r *kittest.Request) *kittest.Reaction {
			if r.User == Name && r.Verb == "get" && r.Name == "z0-n0" {
				return kittest.Refuse(503, "down")
			}
			return nil
		})
		c.live(2*time.Minute, only("z0-n0", "z0-n1"))
		if got := condition(c.node("z0-n0"), corev1.NodeReady).Status; got != corev1.ConditionTrue {
			t.Errorf("z0-n0 was marked %s on no evidence", got)
		}
		if got := condition(c.node("z0-n1"), corev1.NodeReady).Status; got != corev1.ConditionUnknown {
			t.Errorf("z0-n1 is %s; the trouble of another node is not its own", got)
		}
		c.Unreact()
		c.live(10*time.Second, only("z0-n0", "z0-n1"))
		if got := condition(c.node("z0-n0"), corev1.NodeReady).Status; got != corev1.ConditionUnknown {
			t.Errorf("z0-n0 is %s after its lease could be read", got)
		}
	})
}

func TestANodeThatNeverReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 3)
		c.Run(t, Descriptor())
		c.live(5*time.Second, nobody)
		c.Create(t, node("mute", "zone0", ""))
		c.live(55*time.Second, nobody)
		if ready := condition(c.node("mute"), corev1.NodeReady); ready != nil {
			t.Fatalf("marked within its start-up grace: %+v", ready)
		}
		c.live(15*time.Second, nobody)
		n := c.node("mute")
		for _, kind := range heartbeatConditions {
			if got := condition(n, kind); got == nil || got.Status != corev1.ConditionUnknown || got.Reason != "NodeStatusNeverUpdated" || !got.LastHeartbeatTime.Equal(&n.CreationTimestamp) {
				t.Errorf("%s = %+v", kind, got)
			}
		}
		if got := c.events("NodeNotReady"); len(got) != 0 {
			t.Errorf("events = %q; it never was ready", got)
		}
	})
}

// TestANodeThatIsCreatedAgainHasAllItsTime: the silence of an earlier node of the same name does not count.
func TestANodeThatIsCreatedAgainHasAllItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 3)
		c.Run(t, Descriptor())
		c.live(5*time.Second, nobody)
		c.Create(t, node("mute", "zone0", ""))
		c.live(50*time.Second, nobody)
		c.Remove(t, c.node("mute"))
		c.Create(t, node("mute", "zone0", ""))
		c.live(55*time.Second, nobody)
		if ready := condition(c.node("mute"), corev1.NodeReady); ready != nil {
			t.Errorf("marked within its start-up grace: %+v", ready)
		}
		c.live(15*time.Second, nobody)
		if ready := condition(c.node("mute"), corev1.NodeReady); ready == nil {
			t.Error("not marked after its start-up grace")
		}
	})
}

func TestConditionsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 3)
		few := node("few", "zone0", "")
		for _, kind := range []corev1.NodeConditionType{corev1.NodePIDPressure, "example.com/Own", corev1.NodeReady} {
			few.Status.Conditions = append(few.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue})
		}
		c.Create(t, few)
		c.Create(t, node("mute", "zone0", ""))
		c.Run(t, Descriptor())
		c.live(3*time.Minute, only("few", "mute"))
		for name, want := range map[string]string{
			"few":  "PIDPressure=Unknown example.com/Own=True Ready=Unknown MemoryPressure=Unknown DiskPressure=Unknown",
			"mute": "Ready=Unknown MemoryPressure=Unknown DiskPressure=Unknown PIDPressure=Unknown",
		} {
			var got []string
			for _, has := range c.node(name).Status.Conditions {
				got = append(got, string(has.Type)+"="+string(has.Status))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s: conditions %s; want %s", name, strings.Join(got, " "), want)
			}
		}
	})
}

func TestPodsOfALostNodeAreMarkedUntilAllAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 3)
		second := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "second"}, Spec: corev1.PodSpec{NodeName: "z0-n0"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, ObservedGeneration: 7, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: "kept"}}}}
		c.Create(t, second)
		c.Run(t, Descriptor())
		c.live(time.Minute, nobody)
		refused := 0
		c.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "patch" && r.Name == "second" && refused < 2 {
				refused++
				return kittest.Refuse(429, "slow down")
			}
			return nil
		})
		c.live(80*time.Second, only("z0-n0"))
		for _, name := range []string{"on-z0-n0", "second"} {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
			if c.Get(t, p); p.Status.Conditions[0].Status != corev1.ConditionFalse {
				t.Errorf("%s is still ready", name)
			}
			if name == "second" && (p.Status.Conditions[0].Reason != "kept" || p.Status.ObservedGeneration != 7 || refused != 2) {
				t.Errorf("second: status %+v after %d refusals; want the rest as the kubelet left it", p.Status, refused)
			}
		}
		if got := c.events("NodeNotReady"); len(got) != 3 || !slices.Contains(got, "Normal NodeNotReady Node z0-n0: Node z0-n0 status is now: NodeNotReady") ||
			!slices.Contains(got, "Warning NodeNotReady Pod default/second: Node is not ready") {
			t.Errorf("events = %q", got)
		}
		// A pod that is placed on the lost node is marked too, and one on a living node is not.
		for _, at := range []string{"z0-n0", "z0-n1"} {
			c.Create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "late-" + at}, Spec: corev1.PodSpec{NodeName: at},
				Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}})
		}
		c.Pass(100 * time.Millisecond)
		for at, want := range map[string]corev1.ConditionStatus{"z0-n0": corev1.ConditionFalse, "z0-n1": corev1.ConditionTrue} {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "late-" + at}}
			if c.Get(t, p); p.Status.Conditions[0].Status != want {
				t.Errorf("the new pod on %s: ready = %s, want %s", at, p.Status.Conditions[0].Status, want)
			}
		}
	})
}

// TestPodsLeftByTheManagerBeforeAreMarked is the report of a manager that ended between the write of a node's verdict
// and the marking of its pods. The next one may know the pods before it knows the node.
func TestPodsLeftByTheManagerBeforeAreMarked(t *testing.T) {
	for _, late := range []string{"nodes", "pods"} {
		t.Run(late+" late", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 1, 3)
				c.report("z0-n0", corev1.ConditionUnknown)
				begin := time.Now()
				c.React(func(r *kittest.Request) *kittest.Reaction {
					if r.Resource.Resource == late && (r.Verb == "list" || r.Verb == "watch") && time.Since(begin) < 2*time.Second {
						return kittest.Refuse(http.StatusServiceUnavailable, "not yet")
					}
					return nil
				})
				c.Run(t, Descriptor())
				c.live(10*time.Second, only("z0-n0"))
				for name, want := range map[string]corev1.ConditionStatus{"on-z0-n0": corev1.ConditionFalse, "on-z0-n1": corev1.ConditionTrue} {
					p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
					if c.Get(t, p); p.Status.Conditions[0].Status != want {
						t.Errorf("%s: ready = %s, want %s", name, p.Status.Conditions[0].Status, want)
					}
				}
			})
		})
	}
}

func TestFullDisruptionIsEnteredAndLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, 3)
		c.Run(t, Descriptor())
		c.live(time.Minute, nobody)
		zone0 := func(n string) bool { return strings.HasPrefix(n, "z0-") }
		c.live(3*time.Minute, zone0)
		if c.tainted() != 3 {
			t.Fatalf("%d nodes tainted, want the 3 of the lost zone", c.tainted())
		}
		c.live(3*time.Minute, func(string) bool { return true })
		if c.tainted() != 0 {
			t.Errorf("%d nodes tainted although no node anywhere is ready", c.tainted())
		}
		// One zone comes back. The other has been silent all along, and is tainted at the normal rate.
		for _, n := range c.nodes {
			if !zone0(n) {
				c.report(n, corev1.ConditionTrue)
			}
		}
		c.live(5*time.Second, zone0)
		c.live(time.Minute, zone0)
		if c.tainted() != 3 {
			t.Errorf("%d nodes tainted after the end of the disruption, want 3", c.tainted())
		}
	})
}

// TestANodeOfANewZoneEndsADisruption: the pods of the lost zone have somewhere to go again.
func TestANodeOfANewZoneEndsADisruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 3)
		c.Run(t, Descriptor())
		c.live(time.Minute, nobody)
		old := func(n string) bool { return n != "fresh" }
		c.live(3*time.Minute, old)
		if c.tainted() != 0 {
			t.Fatalf("%d nodes tainted although no node anywhere is ready", c.tainted())
		}
		c.Create(t, node("fresh", "zone9", corev1.ConditionTrue))
		m := metav1.NowMicro()
		c.Create(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "fresh"}, Spec: coordinationv1.LeaseSpec{RenewTime: &m}})
		c.nodes = append(c.nodes, "fresh")
		c.live(2*time.Minute, old)
		if c.tainted() != 3 {
			t.Errorf("%d nodes tainted, want the 3 of the lost zone", c.tainted())
		}
		// Lost again, with all others.
		c.live(2*time.Minute, func(string) bool { return true })
		if c.tainted() != 0 {
			t.Errorf("%d nodes tainted although no node anywhere is ready any more", c.tainted())
		}
	})
}

func TestAnEndOfDisruptionCountsSilenceAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 3)
		c.Run(t, Descriptor())
		c.live(time.Minute, nobody)
		c.live(2*time.Minute, func(string) bool { return true })
		// One kubelet reports; another has posted its status, too, but its next heartbeat is still to come.
		c.report("z0-n0", corev1.ConditionTrue)
		c.report("z0-n1", corev1.ConditionTrue)
		c.live(45*time.Second, only("z0-n1", "z0-n2"))
		if got := condition(c.node("z0-n1"), corev1.NodeReady).Status; got != corev1.ConditionTrue {
			t.Errorf("z0-n1 = %s within a grace period of the end of the disruption", got)
		}
	})
}

// TestADisruptionEndsThoughTheCacheOfLeasesIsBehind (k/k#141572): nodes come back, and another one comes, while the cache
// does not show the leases that say so.
func TestADisruptionEndsThoughTheCacheOfLeasesIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 3)
		c.Run(t, Descriptor())
		c.live(time.Minute, nobody)
		c.live(2*time.Minute, func(string) bool { return true })
		leases := coordinationv1.SchemeGroupVersion.WithKind("Lease")
		c.FreezeWatch(leases, true)
		c.live(5*time.Second, nobody)
		c.report("z0-n0", corev1.ConditionTrue)
		c.Create(t, node("late", "zone0", ""))
		c.live(30*time.Second, nobody)
		c.FreezeWatch(leases, false)
		c.report("z0-n1", corev1.ConditionTrue)
		c.report("z0-n2", corev1.ConditionTrue)
		c.live(10*time.Second, nobody)
		if late := condition(c.node("late"), corev1.NodeReady); c.tainted() != 0 || late != nil {
			t.Errorf("%d nodes tainted, late = %+v; all are in time", c.tainted(), late)
		}
		c.live(90*time.Second, only("z0-n2"))
		if got := condition(c.node("z0-n2"), corev1.NodeReady).Status; got != corev1.ConditionUnknown || c.tainted() != 2 {
			t.Errorf("z0-n2 = %s, %d nodes tainted; want it and the node that never reported", got, c.tainted())
		}
	})
}

func TestAZoneOfExcludedNodesIsTaintedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, 2)
		for _, name := range []string{"z1-n0", "z1-n1"} {
			n := c.node(name)
			n.Labels[excludeLabel] = ""
			c.Update(t, n)
		}
		c.Run(t, Descriptor())
		c.live(time.Minute, nobody)
		c.live(2*time.Minute, func(n string) bool { return strings.HasPrefix(n, "z1-") })
		if c.tainted() != 2 {
			t.Errorf("%d nodes tainted, want the 2 of the zone that does not count", c.tainted())
		}
	})
}

func TestANodeThatCannotBeTaintedHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, 3)
		c.Run(t, Descriptor())
		c.live(time.Minute, nobody)
		c.React(func(r *kittest.Request) *kittest.Reaction {
			if r.User == Name && r.Verb == "patch" && r.Resource.Resource == "nodes" && r.Subresource == "" && r.Name == "z0-n0" {
				return kittest.Refuse(403, "a webhook says no")
			}
			return nil
		})
		c.live(3*time.Minute, func(n string) bool { return strings.HasPrefix(n, "z0-") })
		if c.tainted() != 2 {
			t.Errorf("%d nodes tainted, want the 2 that can be", c.tainted())
		}
	})
}

func TestANodeThatChangesItsZoneWaitsThere(t *testing.T) {
	z := newZones(options{evictionRate: 0.1, secondaryRate: 0.01, largeCluster: 50, unhealthyZone: 0.55}, func(string) {})
	m := newMetrics()
	before, after := node("n", "a", corev1.ConditionUnknown), node("n", "b", corev1.ConditionUnknown)
	va, vb := ":\x00:a", ":\x00:b"
	z.ensure(va, m)
	z.ensure(vb, m)
	z.enqueue(before)
	if got, _, ok := z.next(va, time.Now()); !ok || got != before {
		t.Fatalf("next = %v, %t; want the node", got, ok)
	}
	z.enqueue(after)
	if _, _, ok := z.next(va, time.Now()); ok {
		t.Error("the node still waits in the zone that it has left")
	}
	if got, _, ok := z.next(vb, time.Now()); !ok || got != after {
		t.Errorf("next = %v, %t; want the node in its new zone", got, ok)
	}
	z.settle([]verdict{{node: after, judged: true, status: corev1.ConditionUnknown}}, m)
	if z.byName[va] != nil || z.byName[vb] == nil {
		t.Errorf("zones = %v, want b alone: the last node of a has gone", z.byName)
	}
}

// TestARestartStartsNoTaintAgain: what the manager before set stays, so that timers that run elsewhere run on.
func TestARestartStartsNoTaintAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 4)
		first := c.Run(t, Descriptor())
		c.live(time.Minute, nobody)
		c.live(90*time.Second, only("z0-n0"))
		was := c.node("z0-n0").Spec.Taints
		first.Stop()
		c.TakeWrites()
		c.Run(t, Descriptor())
		c.live(2*time.Minute, only("z0-n0"))
		c.Expect(t)
		if now := c.node("z0-n0").Spec.Taints; len(now) != 2 || !slices.EqualFunc(was, now, func(a, b corev1.Taint) bool { return a.TimeAdded.Equal(b.TimeAdded) }) {
			t.Errorf("taints = %v, want those of before", taintTexts(now))
		}
	})
}

// TestALostNodeKeepsOneOfTheTwoTaints: not ready and unreachable exclude each other, whoever added the second.
func TestALostNodeKeepsOneOfTheTwoTaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 4)
		c.Run(t, Descriptor())
		c.live(time.Minute, nobody)
		c.live(90*time.Second, only("z0-n0"))
		n := c.node("z0-n0")
		n.Spec.Taints = append(n.Spec.Taints, noExecuteTaint(corev1.TaintNodeNotReady))
		c.Update(t, n)
		c.live(10*time.Second, only("z0-n0"))
		if n := c.node("z0-n0"); hasNoExecute(n, corev1.TaintNodeNotReady) || !hasNoExecute(n, corev1.TaintNodeUnreachable) {
			t.Errorf("taints = %v, want unreachable alone", taintTexts(n.Spec.Taints))
		}
	})
}

// TestTaintsOfALostNodeComeBack when somebody takes them off by hand.
func TestTaintsOfALostNodeComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 4)
		c.Run(t, Descriptor())
		c.live(time.Minute, nobody)
		c.live(90*time.Second, only("z0-n0"))
		n := c.node("z0-n0")
		n.Spec.Taints = []corev1.Taint{{Key: "mine", Effect: corev1.TaintEffectNoExecute}}
		c.Update(t, n)
		c.live(20*time.Second, only("z0-n0"))
		want := []string{"mine:NoExecute", "node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"}
		if got := slices.Sorted(slices.Values(taintTexts(c.node("z0-n0").Spec.Taints))); !slices.Equal(got, want) {
			t.Errorf("taints = %q, want %q", got, want)
		}
	})
}

// TestATaintThatSomebodyElseAddsMeanwhileStays (k/k#126755, k/k#128304): the controller writes the whole list, at a time
// when its cache does not show the other taint yet.
func TestATaintThatSomebodyElseAddsMeanwhileStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 4)
		c.Run(t, Descriptor())
		c.live(time.Minute, nobody)
		c.DelayWatch(corev1.SchemeGroupVersion.WithKind("Node"), 3*time.Second)
		add := func(key string) {
			n := c.node("z0-n0")
			n.Spec.Taints = append(n.Spec.Taints, noSchedule(key))
			c.Update(t, n)
		}
		c.report("z0-n0", corev1.ConditionFalse)
		c.Pass(time.Second)
		add("first")
		c.live(20*time.Second, nobody)
		want := []string{"first:NoSchedule", "node.kubernetes.io/not-ready:NoExecute", "node.kubernetes.io/not-ready:NoSchedule"}
		if got := slices.Sorted(slices.Values(taintTexts(c.node("z0-n0").Spec.Taints))); !slices.Equal(got, want) {
			t.Errorf("taints = %q, want %q", got, want)
		}
		c.report("z0-n0", corev1.ConditionTrue)
		c.Pass(time.Second)
		add("second")
		c.live(20*time.Second, nobody)
		want = []string{"first:NoSchedule", "second:NoSchedule"}
		if got := slices.Sorted(slices.Values(taintTexts(c.node("z0-n0").Spec.Taints))); !slices.Equal(got, want) {
			t.Errorf("taints = %q, want %q", got, want)
		}
	})
}

// TestOnlyReadyNodesThatFallSilentHaveTheirPodsMarked: pods of a node whose kubelet lives and says that it is not ready are
// left to the kubelet, also when it falls silent later. Users see the same under upstream.
func TestOnlyReadyNodesThatFallSilentHaveTheirPodsMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 5)
		c.Run(t, Descriptor())
		c.live(time.Minute, nobody)
		c.report("z0-n0", corev1.ConditionFalse)
		c.live(20*time.Second, nobody)
		if !hasNoExecute(c.node("z0-n0"), corev1.TaintNodeNotReady) {
			t.Errorf("taints = %v, want not-ready", taintTexts(c.node("z0-n0").Spec.Taints))
		}
		c.live(2*time.Minute, only("z0-n0"))
		if n := c.node("z0-n0"); condition(n, corev1.NodeReady).Status != corev1.ConditionUnknown || !hasNoExecute(n, corev1.TaintNodeUnreachable) {
			t.Errorf("conditions = %v, taints = %v, want an unreachable node", n.Status.Conditions, taintTexts(n.Spec.Taints))
		}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "on-z0-n0"}}
		if c.Get(t, p); p.Status.Conditions[0].Status != corev1.ConditionTrue || len(c.events("NodeNotReady")) != 0 {
			t.Errorf("pod ready = %s, events = %q; want neither touched", p.Status.Conditions[0].Status, c.events("NodeNotReady"))
		}
	})
}

// TestANodeThatIsNotReadyBeforeItIsRegistered: its kubelet has said so itself within the first seconds, and knows its pods.
func TestANodeThatIsNotReadyBeforeItIsRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 3)
		c.Run(t, Descriptor())
		c.live(10*time.Second, nobody)
		c.Pass(time.Second) // the next check is some seconds away
		c.Create(t, node("new", "zone0", corev1.ConditionTrue))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "on-new"}, Spec: corev1.PodSpec{NodeName: "new"},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
		c.Create(t, pod)
		c.Pass(time.Second)
		if got := c.events("RegisteredNode"); slices.ContainsFunc(got, func(e string) bool { return strings.Contains(e, "Node new") }) {
			t.Fatalf("the node is registered already: %q", got)
		}
		c.report("new", corev1.ConditionFalse)
		c.Pass(20 * time.Second)
		if !hasNoExecute(c.node("new"), corev1.TaintNodeNotReady) {
			t.Errorf("taints = %v, want not-ready", taintTexts(c.node("new").Spec.Taints))
		}
		if c.Get(t, pod); pod.Status.Conditions[0].Status != corev1.ConditionTrue {
			t.Error("the pod is marked as not ready")
		}
	})
}

func TestFlagsAreValidated(t *testing.T) {
	bad := options{startupGrace: -1, evictionRate: -1, secondaryRate: float32(math.NaN()), unhealthyZone: -1}
	if errs := bad.validate(); len(errs) != 6 {
		t.Errorf("errors = %v, want 6", errs)
	}
	// What is unusual, and works: a node is given up after a look without a sign of life, a new one is not waited for, and
	// no zone is unhealthy that has a node left.
	odd := options{monitorPeriod: 30 * time.Second, gracePeriod: 20 * time.Second, startupGrace: 0, unhealthyZone: 2}
	if errs := odd.validate(); len(errs) != 0 {
		t.Errorf("errors = %v, want none", errs)
	}
}
