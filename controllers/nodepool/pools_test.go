package nodepool

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"orrery/api/nodes/v1alpha1"
	"orrery/kit/kittest"
)

func TestAuditWritesNoNodeAndShowsItsPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode("a", "pool-gpu")
		n.Labels["team"] = "theirs"
		l := start(t, n, newNode("b", "pool-gpu"), newPool("gpu", label("team", "ml"), taint("gpu", "", "NoSchedule"), func(s *v1alpha1.NodePoolSpec) { s.Mode = v1alpha1.Audit }))
		if n := l.nodeWrites(""); n != 0 {
			t.Errorf("%d writes to nodes", n)
		}
		s := l.pool("gpu").Status
		want := []string{`change label team from "theirs" to "ml"`, `add taint gpu:NoSchedule with value ""`}
		if len(s.Plan) != 2 || s.Plan[0].Name != "a" || !slices.Equal(s.Plan[0].Changes, want) || s.UpdatedNodeCount != 0 || s.NodeCount != 2 {
			t.Errorf("status %+v", s)
		}
		l.expectCondition("gpu", "NodesUpdated", "False Audit")
		l.changePool("gpu", func(s *v1alpha1.NodePoolSpec) { s.Mode = v1alpha1.Enforce })
		l.rest()
		l.expectNode("a", "label team=ml", "taint gpu=:NoSchedule")
		if s := l.pool("gpu").Status; len(s.Plan) != 0 || s.UpdatedNodeCount != 2 {
			t.Errorf("status %+v", s)
		}
		// Back in audit, what is there stays, whatever is asked now.
		l.TakeWrites()
		l.changePool("gpu", func(s *v1alpha1.NodePoolSpec) {
			s.Mode = v1alpha1.Audit
			s.Labels = map[string]v1alpha1.LabelValue{"other": "x"}
		})
		l.rest() // pools and nodes are watched apart
		l.changeNode("b", func(n *corev1.Node) { delete(n.Labels, "pool-gpu") })
		l.rest()
		l.expectNode("a", "label team=ml", "no label other")
		l.expectNode("b", "label team=ml")
		if n := l.nodeWrites(""); n != 0 {
			t.Errorf("%d writes to nodes", n)
		}
	})
}

func TestAPausedPoolWritesNothingAndIsCleanedUpAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, newNode("a", "pool-gpu"), newNode("b"), newPool("gpu", label("team", "ml")))
		l.changePool("gpu", func(s *v1alpha1.NodePoolSpec) {
			s.Paused, s.Labels = true, map[string]v1alpha1.LabelValue{"team": "new"}
		})
		l.rest()
		l.TakeWrites()
		l.changeNode("b", func(n *corev1.Node) { n.Labels["pool-gpu"] = "" })
		l.changeNode("a", func(n *corev1.Node) { delete(n.Labels, "pool-gpu") })
		l.rest()
		l.expectNode("a", "label team=ml")
		l.expectNode("b", "no label team")
		l.expectCondition("gpu", "NodesUpdated", "False Paused")
		if n := l.nodeWrites(""); n != 0 {
			t.Errorf("%d writes to nodes", n)
		}
		p := l.pool("gpu")
		l.Delete(t, p)
		l.rest()
		l.expectNode("a", "no label team", "no annotation "+v1alpha1.RecordAnnotation)
		if l.Get(t, p) {
			t.Errorf("the pool is still there: %+v", p)
		}
	})
}

func TestADeletedPoolCleansUpByItsRecordsAndNotItsSelector(t *testing.T) {
	for policy, want := range map[v1alpha1.DeletionPolicy]string{v1alpha1.Revert: "no label team", v1alpha1.Retain: "label team=ml"} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := start(t, newNode("a", "pool-gpu"), newPool("gpu", label("team", "ml"), func(s *v1alpha1.NodePoolSpec) {
					s.DeletionPolicy, s.RuntimeClass = policy, &v1alpha1.RuntimeClass{Handler: "nvidia"}
				}))
				l.FreezeWatch(corev1.SchemeGroupVersion.WithKind("Node"), true) // the relabelling is not seen
				p := l.pool("gpu")
				l.changeNode("a", func(n *corev1.Node) { delete(n.Labels, "pool-gpu") })
				l.Delete(t, p)
				l.rest()
				if !l.Get(t, p) {
					t.Fatal("the pool went although a node has a record of it")
				}
				l.FreezeWatch(corev1.SchemeGroupVersion.WithKind("Node"), false)
				l.Pass(cleanupPoll)
				l.rest()
				l.expectNode("a", want, "no annotation "+v1alpha1.RecordAnnotation)
				if l.Get(t, p) || l.class("node-pool-gpu") != nil {
					t.Errorf("the pool or its RuntimeClass is still there: %+v", p)
				}
			})
		})
	}
}

// A pool that vanished without its finalizer is asked for, and given up only when the server says that it is gone.
func TestARecordWithoutItsPoolIsRevertedOnTheServersWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, newNode("a", "pool-gpu"), newPool("gpu", label("team", "ml")))
		l.running.Stop()
		l.Remove(t, l.pool("gpu"))
		l.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "get" && r.Resource.Resource == "nodepools" {
				return kittest.Refuse(http.StatusInternalServerError, "etcd is away")
			}
			return nil
		})
		l.run()
		l.expectNode("a", "label team=ml")
		l.Unreact()
		l.Pass(time.Minute)
		l.rest()
		l.expectNode("a", "no label team", "no annotation "+v1alpha1.RecordAnnotation)
		// Of another pool of the name it knows at once.
		l.Create(t, newPool("gpu", label("team", "again")))
		l.rest()
		l.expectNode("a", "label team=again")
	})
}

func TestAMalformedRecordDeletesNothingAndIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, newNode("a", "pool-gpu"), newNode("b", "pool-gpu"), newPool("gpu", label("team", "ml")))
		l.TakeWrites()
		good := l.node("a").Annotations[v1alpha1.RecordAnnotation]
		l.changeNode("a", func(n *corev1.Node) {
			n.Annotations[v1alpha1.RecordAnnotation] = strings.Replace(good, `"v":1`, `"v":2`, 1)
		})
		l.changePool("gpu", label("team", "new"))
		l.rest()
		l.expectNode("a", "label team=ml")
		l.expectNode("b", "label team=new")
		l.expectCondition("gpu", "Degraded", "True MalformedRecord")
		if p := l.pool("gpu").Status.ProblemNodes; len(p) != 1 || p[0].Name != "a" || p[0].Reason != "MalformedRecord" {
			t.Errorf("problem nodes %+v", p)
		}
		p := l.pool("gpu")
		l.Delete(t, p)
		l.Pass(time.Minute)
		l.expectNode("a", "label team=ml")
		l.expectNode("b", "no label team")
		if !l.Get(t, p) {
			t.Fatal("the pool went although a record may name it")
		}
		l.expectCondition("gpu", "Degraded", "True CleanupBlocked")
		l.changeNode("a", func(n *corev1.Node) { n.Annotations[v1alpha1.RecordAnnotation] = good })
		l.Pass(cleanupPoll)
		l.rest()
		l.expectNode("a", "no label team", "no annotation "+v1alpha1.RecordAnnotation)
		if l.Get(t, p) {
			t.Error("the pool is still there")
		}
	})
}

func TestARolloutIsBoundedAndStopsForBrokenNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		two := intstr.FromString("40%")
		l := start(t, newNode("a", "pool-gpu"), newNode("b", "pool-gpu"), newNode("c", "pool-gpu"), newNode("d", "pool-gpu"), newNode("e", "pool-gpu"),
			newPool("gpu", label("team", "one"), func(s *v1alpha1.NodePoolSpec) { s.Rollout = v1alpha1.Rollout{MaxUpdating: &two, IntervalSeconds: 60} }))
		has := func(value string) int {
			n := 0
			for _, node := range kittest.List[corev1.Node](t, l.API, "") {
				if node.Labels["team"] == value {
					n++
				}
			}
			return n
		}
		for _, want := range []int{2, 4, 5} {
			if got := has("one"); got != want {
				t.Fatalf("%d nodes changed, want %d", got, want)
			}
			l.Pass(61 * time.Second)
			l.rest()
		}
		l.expectCondition("gpu", "NodesUpdated", "True UpToDate")
		l.changePool("gpu", label("team", "two"))
		l.rest()
		if got := has("two"); got != 2 {
			t.Fatalf("%d nodes changed, want 2", got)
		}
		l.expectCondition("gpu", "NodesUpdated", "False RollingOut")
		setReady := func(status corev1.ConditionStatus) {
			l.changeNode("a", func(n *corev1.Node) {
				n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = status, metav1.Now()
			})
		}
		setReady(corev1.ConditionFalse)
		l.Pass(time.Hour)
		if got := has("two"); got != 2 {
			t.Errorf("%d nodes changed while one is broken, want 2", got)
		}
		l.expectCondition("gpu", "NodesUpdated", "False RolloutStopped")
		// What is asked no longer goes at once, everywhere.
		l.changePool("gpu", func(s *v1alpha1.NodePoolSpec) { s.Labels = nil })
		l.rest()
		if got := has("one") + has("two"); got != 0 {
			t.Errorf("%d nodes still have what nobody asks for", got)
		}
		l.changePool("gpu", label("team", "three"))
		setReady(corev1.ConditionTrue)
		l.Pass(3 * time.Minute)
		l.rest()
		if got := has("three"); got != 5 {
			t.Errorf("%d nodes changed, want 5", got)
		}
	})
}

func TestNoExecuteTaintsComeOneNodeAtATimeByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, newNode("a", "pool-gpu"), newNode("b", "pool-gpu"), newNode("c", "pool-gpu"))
		var times []time.Time
		l.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "patch" && r.Resource.Resource == "nodes" {
				times = append(times, time.Now())
			}
			return nil
		})
		l.Create(t, newPool("gpu", taint("out", "", "NoExecute"), label("x", "y")))
		l.rest()
		if len(times) != 3 || times[1].Sub(times[0]) < statusDelay || times[2].Sub(times[1]) < statusDelay {
			t.Errorf("nodes were given the taint at %v", times)
		}
		// A node that has just come does not wait.
		fresh := newNode("fresh", "pool-gpu")
		fresh.CreationTimestamp = metav1.Now()
		l.changeNode("a", func(n *corev1.Node) {
			n.Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}
		})
		l.Create(t, fresh)
		l.rest()
		l.expectNode("fresh", "taint out=:NoExecute")
	})
}

func TestTheRuntimeClassFollowsThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		foreign := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "taken"}, Handler: "runc"}
		class := func(name string) func(*v1alpha1.NodePoolSpec) {
			return func(s *v1alpha1.NodePoolSpec) {
				s.RuntimeClass = &v1alpha1.RuntimeClass{Name: name, Handler: "nvidia", Overhead: v1alpha1.ResourceList{"cpu": resource.MustParse("50m")}}
			}
		}
		l := start(t, foreign, newPool("gpu", class(""), taint("gpu", "yes", "NoSchedule"), taint("init", "", "NoExecute", v1alpha1.PropagateOnJoin)), newPool("late", class("taken")))
		rc := l.class("node-pool-gpu")
		if rc == nil || rc.Handler != "nvidia" || rc.Overhead.PodFixed.Cpu().String() != "50m" || rc.Scheduling.NodeSelector["pool-gpu"] != "" ||
			len(rc.Scheduling.Tolerations) != 2 || rc.Scheduling.Tolerations[0] != (corev1.Toleration{Key: "gpu", Operator: "Equal", Value: "yes", Effect: "NoSchedule"}) {
			t.Fatalf("RuntimeClass %+v", rc)
		}
		l.expectCondition("gpu", "RuntimeClassReady", "True Created")
		l.expectCondition("late", "RuntimeClassReady", "False NameInUse")
		l.expectCondition("late", "Ready", "False NameInUse")
		if got := l.class("taken"); got.Handler != "runc" || len(got.OwnerReferences) != 0 {
			t.Errorf("the foreign RuntimeClass is %+v", got)
		}
		l.Remove(t, foreign)
		l.changePool("gpu", taint("more", "", "NoSchedule"))
		l.rest()
		if got := l.class("taken"); got == nil || got.Handler != "nvidia" {
			t.Errorf("RuntimeClass %+v", got)
		}
		if got := l.class("node-pool-gpu"); len(got.Scheduling.Tolerations) != 3 || got.UID != rc.UID {
			t.Errorf("RuntimeClass %+v", got)
		}
		l.changePool("gpu", func(s *v1alpha1.NodePoolSpec) { s.RuntimeClass = nil })
		l.rest()
		if l.class("node-pool-gpu") != nil || l.pool("gpu").Status.RuntimeClassName != "" {
			t.Error("the RuntimeClass is still there")
		}
		l.expectCondition("gpu", "RuntimeClassReady", "none")
	})
}

func TestARestartWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, newNode("a", "pool-gpu"), newNode("b", "pool-gpu"), newNode("c"),
			newPool("gpu", label("team", "ml"), taint("gpu", "", "NoSchedule"), func(s *v1alpha1.NodePoolSpec) { s.RuntimeClass = &v1alpha1.RuntimeClass{Handler: "x"} }),
			newPool("empty"), newPool("audited", label("x", "y"), func(s *v1alpha1.NodePoolSpec) { s.Mode = v1alpha1.Audit }))
		l.running.Stop()
		l.TakeWrites()
		events := len(l.Events())
		l.run()
		l.Pass(10 * time.Minute)
		l.Expect(t)
		if got := len(l.Events()); got != events {
			t.Errorf("events %v", l.Events()[events:])
		}
	})
}

func TestTheLastNodeLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, newNode("a", "pool-gpu"), newPool("gpu", label("team", "ml")))
		l.Remove(t, l.node("a"))
		l.rest()
		s := l.pool("gpu").Status
		if s.NodeCount != 0 || s.Capacity != nil || s.UpdatedNodeCount != 0 {
			t.Errorf("status %+v", s)
		}
		l.expectCondition("gpu", "Ready", "True AsAsked")
	})
}

func TestEventsTellOfTransitionsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode("a", "pool-gpu")
		n.Labels["team"] = "theirs"
		l := start(t, n, newPool("gpu", label("team", "ml"), func(s *v1alpha1.NodePoolSpec) { s.ExistingKeys = v1alpha1.Skip }))
		for i := range 5 {
			l.changeNode("a", func(n *corev1.Node) { n.Annotations["x"] = strings.Repeat("x", i) })
			l.rest()
		}
		l.changeNode("a", func(n *corev1.Node) { n.Labels["team"] = "ml" })
		l.rest()
		var got []string
		for _, e := range l.Events() {
			got = append(got, e.Type+" "+e.Reason+" "+e.Object)
		}
		want := []string{"Normal UpToDate NodePool gpu", "Warning KeysLeftToOthers NodePool gpu", "Normal NoConflict NodePool gpu"}
		if !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}

// Until the server has the kind, nothing is read or written; then all is caught up with.
func TestItWaitsForItsKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lab{API: kittest.New(t), t: t}
		l.AddTypes(v1alpha1.AddToScheme, "NodePool")
		l.Serve(v1alpha1.NodePoolResource, false)
		l.Create(t, newNode("a", "pool-gpu"))
		l.Create(t, newPool("gpu", label("team", "ml")))
		asked := 0
		l.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Resource == v1alpha1.NodePoolResource {
				asked++
			}
			return nil
		})
		l.run()
		l.Pass(10 * time.Minute)
		l.expectNode("a", "no label team")
		if asked != 0 {
			t.Errorf("it asked %d times for pools of a kind that is not there", asked)
		}
		for _, c := range l.running.Controllers {
			if err := c.Healthy(time.Now()); err != nil {
				t.Errorf("%s is not healthy while it waits: %v", c.Name(), err)
			}
		}
		l.Expect(t)
		l.Serve(v1alpha1.NodePoolResource, true)
		l.Pass(kindPeriod)
		l.rest()
		l.expectNode("a", "label team=ml")
		l.expectCondition("gpu", "Ready", "True AsAsked")
	})
}
