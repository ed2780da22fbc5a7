package nodepool

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/api/nodes/v1alpha1"
	"orrery/kit"
	"orrery/kit/kittest"
)

func setFlags(t *testing.T, d kit.Descriptor, flags []string) {
	t.Helper()
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	d.AddFlags(fs)
	if err := errors.Join(fs.Parse(flags), errors.Join(d.Validate()...)); err != nil {
		t.Fatal(err)
	}
}

func TestANodeThatJoinsGetsAllInOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, newNode("a"), newNode("b", "pool-gpu"), newPool("gpu", label("team", "ml"), taint("gpu", "yes", "NoSchedule"), func(s *v1alpha1.NodePoolSpec) {
			s.NodeRole, s.Annotations = "fast", map[string]v1alpha1.AnnotationValue{"example.com/note": "x"}
		}))
		l.expectNode("b", "label team=ml", "label node-role.kubernetes.io/fast=", "annotation example.com/note=x", "taint gpu=yes:NoSchedule", "annotation "+v1alpha1.RecordAnnotation)
		l.expectNode("a", "no label team", "no taint gpu", "no annotation "+v1alpha1.RecordAnnotation)
		if n := l.nodeWrites(""); n != 1 {
			t.Errorf("%d writes to nodes: %v", n, l.Writes())
		}
		l.TakeWrites()
		l.changeNode("a", func(n *corev1.Node) { n.Labels["pool-gpu"] = "" })
		l.rest()
		l.expectNode("a", "label team=ml", "taint gpu=yes:NoSchedule")
		l.Expect(t, "patch v1/nodes a", "update nodes.orrery.dev/v1alpha1/nodepools/status gpu")
		s := l.pool("gpu").Status
		cpu := s.Capacity["cpu"]
		if s.NodeCount != 2 || s.ReadyNodeCount != 2 || s.UpdatedNodeCount != 2 || cpu.String() != "8" || s.Selector != "pool-gpu=" || s.ObservedGeneration != 1 {
			t.Errorf("status %+v", s)
		}
		l.expectCondition("gpu", "Ready", "True AsAsked")
		l.expectCondition("gpu", "Conflicted", "False NoConflict")
	})
}

func TestANodeThatLeavesIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode("a", "pool-gpu")
		n.Labels["team"] = "before"
		n.Spec.Taints = []corev1.Taint{{Key: "first", Effect: "NoSchedule"}, {Key: "gpu", Value: "old", Effect: "NoSchedule"}, {Key: "last", Effect: "NoSchedule"}}
		outside := n.DeepCopy()
		delete(outside.Labels, "pool-gpu")
		l := start(t, n, newPool("gpu", label("team", "ml"), label("new", "x"), taint("gpu", "yes", "NoSchedule"), taint("more", "", "NoExecute")))
		l.expectNode("a", "label team=ml", "taint gpu=yes:NoSchedule", "taint more=:NoExecute")
		l.TakeWrites()
		l.changeNode("a", func(n *corev1.Node) { delete(n.Labels, "pool-gpu") })
		l.rest()
		if after, before := bare(l.node("a")), bare(outside); after != before {
			t.Errorf("the node is\n%s\nand was\n%s", after, before)
		}
		if n := l.nodeWrites("a"); n != 1 {
			t.Errorf("%d writes: %v", n, l.Writes())
		}
	})
}

// A node that moves is never without the taints that both pools put on it, and is written once.
func TestANodeMovesInOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, newNode("a", "pool-one"), newPool("one", taint("reserved", "one", "NoSchedule"), label("from", "one")), newPool("two", taint("reserved", "two", "NoSchedule"), label("to", "two")))
		l.expectNode("a", "taint reserved=one:NoSchedule")
		l.TakeWrites()
		l.changeNode("a", func(n *corev1.Node) { delete(n.Labels, "pool-one"); n.Labels["pool-two"] = "" })
		l.rest()
		l.expectNode("a", "taint reserved=two:NoSchedule", "label to=two", "no label from")
		if n := l.nodeWrites("a"); n != 1 {
			t.Errorf("%d writes: %v", n, l.Writes())
		}
	})
}

// A node that moves to a pool in which it has to wait for its turn keeps the taints of the old one until then.
func TestAMoveThatHasToWaitLeavesNoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bound := func(s *v1alpha1.NodePoolSpec) { s.Rollout.IntervalSeconds = 600 }
		l := start(t, newNode("a", "pool-one"), newNode("b", "pool-one"), newPool("one", taint("reserved", "one", "NoSchedule")), newPool("two", taint("reserved", "two", "NoExecute"), bound))
		for _, n := range []string{"a", "b"} {
			l.changeNode(n, func(n *corev1.Node) { delete(n.Labels, "pool-one"); n.Labels["pool-two"] = "" })
		}
		l.rest()
		l.expectNode("a", "taint reserved=two:NoExecute", "no taint reserved=one:NoSchedule")
		l.expectNode("b", "taint reserved=one:NoSchedule", "no taint reserved=two:NoExecute")
		l.Pass(11 * time.Minute)
		l.expectNode("b", "taint reserved=two:NoExecute", "no taint reserved=one:NoSchedule")
	})
}

func TestTheHigherPriorityWinsAndTheOldValueSurvivesTheFlip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode("a", "pool-one", "pool-two")
		n.Labels["team"] = "before"
		prio := func(p int32) func(*v1alpha1.NodePoolSpec) { return func(s *v1alpha1.NodePoolSpec) { s.Priority = p } }
		l := start(t, n, newPool("one", label("team", "one"), prio(1)), newPool("two", label("team", "two"), prio(2)))
		l.expectNode("a", "label team=two")
		l.TakeWrites()
		l.changePool("one", prio(3))
		l.rest()
		l.expectNode("a", "label team=one")
		if n := l.nodeWrites("a"); n != 1 {
			t.Errorf("%d writes: %v", n, l.Writes())
		}
		l.expectCondition("two", "Conflicted", "False NoConflict")
		l.Delete(t, l.pool("one"))
		l.rest()
		l.expectNode("a", "label team=two")
		l.changePool("two", prio(0))
		l.Delete(t, l.pool("two"))
		l.rest()
		l.expectNode("a", "label team=before", "no annotation "+v1alpha1.RecordAnnotation)
	})
}

func TestATieIsWonByTheOlderAndReportedByTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := newPool("b-older", label("team", "one")), newPool("a-younger", label("team", "two"))
		one.CreationTimestamp, two.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour)), metav1.NewTime(time.Now())
		l := start(t, newNode("a", "pool-b-older", "pool-a-younger"), one, two)
		l.expectNode("a", "label team=one")
		l.expectCondition("a-younger", "Conflicted", "True KeysLeftToOthers")
		l.expectCondition("b-older", "Conflicted", "False NoConflict")
		if p := l.pool("a-younger").Status.ProblemNodes; len(p) != 1 || p[0].Reason != "Conflict" || !strings.Contains(p[0].Message, "label team") {
			t.Errorf("problem nodes %+v", p)
		}
	})
}

func TestDriftIsRepairedAndForeignKeysAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, newNode("a", "pool-gpu"), newPool("gpu", label("team", "ml"), taint("gpu", "", "NoSchedule")))
		l.TakeWrites()
		l.changeNode("a", func(n *corev1.Node) {
			n.Labels["team"], n.Labels["other"] = "hijacked", "theirs"
			n.Spec.Taints = []corev1.Taint{{Key: "other", Effect: "NoExecute"}}
		})
		l.rest()
		l.expectNode("a", "label team=ml", "label other=theirs", "taint gpu=:NoSchedule", "taint other=:NoExecute")
		if n := l.nodeWrites("a"); n != 1 {
			t.Errorf("%d writes: %v", n, l.Writes())
		}
	})
}

// Taints are one list: whoever writes it from an old state of the node loses what others have added since, as in k/k#128304.
func TestATaintThatTheCacheDoesNotShowIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, newNode("a", "pool-gpu"), newPool("gpu", taint("gpu", "", "NoSchedule")))
		kind := corev1.SchemeGroupVersion.WithKind("Node")
		l.FreezeWatch(kind, true)
		l.changeNode("a", func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Effect: "NoSchedule"})
		})
		l.changePool("gpu", func(s *v1alpha1.NodePoolSpec) { taint("more", "", "NoSchedule")(s) })
		l.Pass(10 * time.Second)
		l.expectNode("a", "taint ToBeDeletedByClusterAutoscaler=:NoSchedule", "no taint more=:NoSchedule")
		l.FreezeWatch(kind, false)
		l.Pass(2 * time.Minute)
		l.expectNode("a", "taint ToBeDeletedByClusterAutoscaler=:NoSchedule", "taint gpu=:NoSchedule", "taint more=:NoSchedule")
	})
}

func TestAKeyThatFlipsAgainAndAgainIsLeftAloneAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, newNode("a", "pool-gpu"), newPool("gpu", label("team", "ml"), label("calm", "yes")))
		l.TakeWrites()
		for range 60 { // for a minute, once a second
			l.changeNode("a", func(n *corev1.Node) { n.Labels["team"] = "theirs" })
			l.Pass(time.Second)
		}
		if n := l.nodeWrites("a"); n < freeRepairs || n > freeRepairs+2 {
			t.Errorf("%d writes in a minute: %v", n, l.Writes())
		}
		l.rest()
		l.expectNode("a", "label team=theirs", "label calm=yes")
		l.expectCondition("gpu", "Conflicted", "True KeysLeftToOthers")
		if p := l.pool("gpu").Status.ProblemNodes; len(p) != 1 || p[0].Reason != "Flapping" {
			t.Errorf("problem nodes %+v", p)
		}
		// Other keys of the node are kept meanwhile.
		l.changeNode("a", func(n *corev1.Node) { delete(n.Labels, "calm") })
		l.rest()
		l.expectNode("a", "label calm=yes", "label team=theirs")
		l.Pass(longestPause) // nobody fights any more
		l.rest()
		l.expectNode("a", "label team=ml")
		l.expectCondition("gpu", "Conflicted", "False NoConflict")
	})
}

func TestATaintOnJoinIsAddedOncePerNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, newNode("a", "pool-gpu"), newPool("gpu", taint("prepare", "", "NoSchedule", v1alpha1.PropagateOnJoin), taint("gpu", "", "NoSchedule")))
		l.expectNode("a", "taint prepare=:NoSchedule")
		without := func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: "NoSchedule"}} }
		l.changeNode("a", without)
		l.rest()
		l.expectNode("a", "no taint prepare", "taint gpu=:NoSchedule")
		for _, change := range []func(*corev1.Node){
			func(n *corev1.Node) { delete(n.Labels, "pool-gpu") }, func(n *corev1.Node) { n.Labels["pool-gpu"] = "" },
		} {
			l.changeNode("a", change)
			l.rest()
			l.expectNode("a", "no taint prepare")
		}
		l.expectNode("a", "taint gpu=:NoSchedule")
		l.running.Stop()
		l.run()
		l.expectNode("a", "no taint prepare")
		l.Remove(t, l.node("a"))
		again := newNode("a", "pool-gpu")
		again.Annotations[v1alpha1.RecordAnnotation] = `{"v":1,"node":"of-before","pools":[{"name":"gpu","uid":"` + string(l.pool("gpu").UID) + `","joined":true}]}`
		l.Create(t, again)
		l.rest()
		l.expectNode("a", "taint prepare=:NoSchedule", "taint gpu=:NoSchedule")
		l.Delete(t, l.pool("gpu"))
		l.rest()
		l.expectNode("a", "taint prepare=:NoSchedule", "no taint gpu", "no annotation "+v1alpha1.RecordAnnotation)
	})
}

func TestExistingKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode("a", "pool-gpu")
		n.Labels["team"], n.Labels["same"] = "theirs", "x"
		l := start(t, n, newPool("gpu", label("team", "ml"), label("same", "x"), label("new", "x"), func(s *v1alpha1.NodePoolSpec) { s.ExistingKeys = v1alpha1.Skip }))
		l.expectNode("a", "label team=theirs", "label same=x", "label new=x")
		l.expectCondition("gpu", "Conflicted", "True KeysLeftToOthers")
		s := l.pool("gpu").Status
		if s.ConflictedNodeCount != 1 || s.UpdatedNodeCount != 1 || len(s.ProblemNodes) != 1 || s.ProblemNodes[0].Name != "a" {
			t.Errorf("status %+v", s)
		}
		l.changePool("gpu", func(s *v1alpha1.NodePoolSpec) { s.ExistingKeys = v1alpha1.Adopt })
		l.rest()
		l.expectNode("a", "label team=ml")
		l.expectCondition("gpu", "Conflicted", "False NoConflict")
		l.changePool("gpu", func(s *v1alpha1.NodePoolSpec) { s.ExistingKeys = v1alpha1.Skip })
		l.rest()
		l.expectNode("a", "label team=theirs")
		l.Delete(t, l.pool("gpu"))
		l.rest()
		l.expectNode("a", "label team=theirs", "label same=x", "no label new")
	})
}

func TestTheStartupTaintGoesWithTheFirstPatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fresh := func(name string, labels ...string) *corev1.Node {
			n := newNode(name, labels...)
			n.CreationTimestamp = metav1.Now()
			n.Spec.Taints = []corev1.Taint{{Key: "example.com/new", Value: "x", Effect: "NoSchedule"}}
			return n
		}
		l := startWith(t, []string{"--nodepool-startup-taint=example.com/new:NoSchedule"},
			fresh("in-pool", "pool-gpu"), fresh("in-none"), fresh("in-paused", "pool-paused"),
			newPool("gpu", taint("gpu", "", "NoExecute")), newPool("paused", taint("x", "", "NoSchedule"), func(s *v1alpha1.NodePoolSpec) { s.Paused = true }))
		l.expectNode("in-pool", "no taint example.com/new", "taint gpu=:NoExecute")
		l.expectNode("in-none", "no taint example.com/new", "no annotation "+v1alpha1.RecordAnnotation)
		l.expectNode("in-paused", "taint example.com/new")
		if n := l.nodeWrites("in-pool"); n != 1 {
			t.Errorf("%d writes: %v", n, l.Writes())
		}
	})
}

// A write that the server refuses is reported by the pool, is not repeated without end, and heals.
func TestARefusedWriteIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, newNode("a"), newNode("b"), newPool("gpu", label("team", "ml")))
		tries := 0
		l.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "patch" && r.Name == "a" {
				tries++
				return kittest.Refuse(http.StatusUnprocessableEntity, "annotations are too long")
			}
			return nil
		})
		for _, n := range []string{"a", "b"} {
			l.changeNode(n, func(n *corev1.Node) { n.Labels["pool-gpu"] = "" })
		}
		l.Pass(10 * time.Minute)
		l.expectNode("b", "label team=ml")
		l.expectCondition("gpu", "Degraded", "True WriteFailed")
		l.expectCondition("gpu", "Ready", "False WriteFailed")
		if s := l.pool("gpu").Status; s.FailedNodeCount != 1 || len(s.ProblemNodes) != 1 || s.ProblemNodes[0].Message != "annotations are too long" || tries > 30 {
			t.Errorf("after %d tries: %+v", tries, s)
		}
		l.Unreact() // as when an admission policy has been mended: nothing else says so
		l.Pass(2 * time.Minute)
		l.rest()
		l.expectNode("a", "label team=ml")
		l.expectCondition("gpu", "Degraded", "False NoProblem")
	})
}

// Two pools that each undo what the other selects by would write for ever.
func TestPoolsThatUndoEachOtherAreStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newPool("first", label("x", "1"))
		first.Spec.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "y", Operator: metav1.LabelSelectorOpDoesNotExist}}}
		second := newPool("second", label("y", "1"))
		second.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"x": "1"}}
		l := start(t, newNode("a"), first, second)
		l.Pass(4 * time.Minute)
		if n := l.nodeWrites("a"); n < busyWrites || n > busyWrites+1 {
			t.Errorf("%d writes in four minutes", n)
		}
		if e := l.Events(); !slices.ContainsFunc(e, func(e kittest.Event) bool { return e.Object == "Node a" && e.Reason == "NodePoolsRestless" }) {
			t.Errorf("events %v", e)
		}
		l.Delete(t, l.pool("second")) // which ends the rest
		l.rest()
		l.expectNode("a", "label x=1", "no label y")
		l.expectCondition("first", "Ready", "True AsAsked")
	})
}

// Who moves a node in and out by hand, or by a script, is not taken for pools that undo each other.
func TestANodeThatOthersMoveAgainAndAgainIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, newNode("a"), newPool("gpu", label("team", "ml")))
		for range 2 * busyWrites {
			l.changeNode("a", func(n *corev1.Node) { n.Labels["pool-gpu"] = "" })
			l.Pass(time.Second)
			l.expectNode("a", "label team=ml")
			l.changeNode("a", func(n *corev1.Node) { delete(n.Labels, "pool-gpu") })
			l.Pass(time.Second)
			l.expectNode("a", "no label team")
		}
		// One that does nothing else is stopped in the end.
		for range busiestWrites {
			l.changeNode("a", func(n *corev1.Node) { n.Labels["pool-gpu"] = "" })
			l.Pass(300 * time.Millisecond)
			l.changeNode("a", func(n *corev1.Node) { delete(n.Labels, "pool-gpu") })
			l.Pass(300 * time.Millisecond)
		}
		if n := l.nodeWrites("a"); n > 4*busyWrites+busiestWrites {
			t.Errorf("%d writes", n)
		}
	})
}
