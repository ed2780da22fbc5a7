package podgc

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit"
	"orrery/kit/kittest"
)

// withThreshold returns the controller with --terminated-pod-gc-threshold set.
func withThreshold(t *testing.T, n int) kit.Descriptor {
	t.Helper()
	d := Descriptor()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	d.AddFlags(fs)
	if err := fs.Set("terminated-pod-gc-threshold", fmt.Sprint(n)); err != nil {
		t.Fatal(err)
	}
	return d
}

func pod(name, node string, phase corev1.PodPhase, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status:     corev1.PodStatus{Phase: phase},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func createdAt(second int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(time.Unix(second, 0)) }
}

func evictedPod(p *corev1.Pod) { p.Status.Reason = "Evicted" }

func held(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} }

func deleted(p *corev1.Pod) {
	at, grace := metav1.Now(), int64(30)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
	p.Finalizers = []string{"example.com/hold"} // lets a pod be made in this state
}

func node(name string, ready corev1.ConditionStatus, taints ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	for _, key := range taints {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
	}
	return n
}

// deletes returns the names of the pods that the controller deleted, in order.
func deletes(api *kittest.API) []string {
	var out []string
	for _, w := range api.Writes() {
		if name, ok := strings.CutPrefix(w, "delete v1/pods default/"); ok {
			out = append(out, name)
		}
	}
	return out
}

func TestEvictedPodsGoFirstAndThenTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, node("n", corev1.ConditionTrue),
			pod("young", "n", corev1.PodSucceeded, createdAt(400)),
			pod("old-b", "n", corev1.PodFailed, createdAt(100)),
			pod("old-a", "n", corev1.PodSucceeded, createdAt(100)),
			pod("evicted", "n", corev1.PodFailed, createdAt(500), evictedPod),
			pod("evicted-but-done", "n", corev1.PodSucceeded, createdAt(300), evictedPod),
			pod("running", "n", corev1.PodRunning, createdAt(50)))
		api.Run(t, withThreshold(t, 3))
		api.Settle()
		got := deletes(api)
		slices.Sort(got)
		if !slices.Equal(got, []string{"evicted", "old-a"}) {
			t.Errorf("deleted %v, want the evicted one and the first of the two oldest", got)
		}
		for _, w := range api.Writes() {
			if strings.HasPrefix(w, "patch") {
				t.Errorf("%s: a pod that has ended needs no mark", w)
			}
		}
	})
}

// TestThresholdZeroKeepsFinishedPodsOnly: there was a bug by which a threshold of 0 stopped all garbage collection.
func TestThresholdZeroKeepsFinishedPodsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, node("n", corev1.ConditionTrue),
			pod("finished", "n", corev1.PodSucceeded), pod("orphan", "gone", corev1.PodRunning), pod("unscheduled", "", corev1.PodPending, deleted))
		api.Run(t, withThreshold(t, 0))
		api.Pass(2 * time.Minute)
		got := deletes(api)
		slices.Sort(got)
		if !slices.Equal(got, []string{"orphan", "unscheduled"}) {
			t.Errorf("deleted %v, want the orphan and the unscheduled one", got)
		}
	})
}

func TestOrphansAreMarkedAndRemovedAfterTheQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, pod("orphan", "gone", corev1.PodRunning, held), pod("done", "gone", corev1.PodSucceeded))
		api.Run(t, Descriptor())
		api.Pass(39 * time.Second)
		if w := api.Writes(); len(w) != 0 {
			t.Fatalf("writes in quarantine: %v", w)
		}
		api.Pass(22 * time.Second)
		writes := api.Writes()
		mark, remove := slices.Index(writes, "patch v1/pods/status default/orphan"), slices.Index(writes, "delete v1/pods default/orphan")
		if mark < 0 || remove < mark || !slices.Contains(writes, "delete v1/pods default/done") {
			t.Fatalf("writes = %v, want orphan marked and then deleted, and done deleted", writes)
		}
		p := pod("orphan", "", "")
		api.Get(t, p)
		c := p.Status.Conditions
		if p.Status.Phase != corev1.PodFailed || len(c) != 1 || c[0].Type != corev1.DisruptionTarget || c[0].Status != corev1.ConditionTrue ||
			c[0].Reason != "DeletionByPodGC" || c[0].Message != "PodGC: node no longer exists" || c[0].LastTransitionTime.IsZero() {
			t.Errorf("status = %+v, want Failed with the disruption target", p.Status)
		}
		if c[0].ObservedGeneration == 0 || p.Status.ObservedGeneration != c[0].ObservedGeneration {
			t.Errorf("observed generations = %d and %d, want that of the pod", p.Status.ObservedGeneration, c[0].ObservedGeneration)
		}
	})
}

// TestASweepThatBeginsInTimeEndsTheQuarantine: the sweep that first saw the node missing may have begun with more delay.
func TestASweepThatBeginsInTimeEndsTheQuarantine(t *testing.T) {
	tick := time.Unix(1000, 0)
	first := tick.Add(30 * time.Millisecond)
	for _, tc := range []struct {
		name string
		now  time.Time
		want bool
	}{
		{"the next sweep", tick.Add(period), false},
		{"the one after, less late", tick.Add(2*period + time.Millisecond), true},
		{"the one after, later", tick.Add(2*period + time.Second), true},
	} {
		if got := isOver(first, tc.now); got != tc.want {
			t.Errorf("%s: out of quarantine = %t, want %t", tc.name, got, tc.want)
		}
	}
}

func TestANodeThatTheServerKnowsKeepsItsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, pod("p", "late", corev1.PodRunning))
		api.Run(t, Descriptor())
		api.Settle()
		api.FreezeWatch(corev1.SchemeGroupVersion.WithKind("Node"), true)
		api.Create(t, node("late", corev1.ConditionTrue))
		api.Pass(3 * time.Minute)
		if w := api.Writes(); len(w) != 0 {
			t.Errorf("writes = %v; the cache is behind, and the server has the node", w)
		}
	})
}

func TestANodeThatComesBackStartsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, pod("p", "flaps", corev1.PodRunning))
		api.Run(t, Descriptor())
		api.Pass(30 * time.Second) // seen missing at 0 s and 20 s
		api.Create(t, node("flaps", corev1.ConditionTrue))
		api.Pass(15 * time.Second) // seen at 40 s
		api.Remove(t, node("flaps", ""))
		api.Pass(45 * time.Second) // seen missing at 60 s and 80 s
		if w := api.Writes(); len(w) != 0 {
			t.Errorf("writes = %v, want none before the node has been missing for the quarantine again", w)
		}
		api.Pass(20 * time.Second)
		if got := deletes(api); !slices.Equal(got, []string{"p"}) {
			t.Errorf("deleted %v, want p", got)
		}
	})
}

func TestOutOfServiceNodesLoseTheirTerminatingPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t,
			node("dead", corev1.ConditionUnknown, corev1.TaintNodeOutOfService), node("ready", corev1.ConditionTrue, corev1.TaintNodeOutOfService), node("lost", corev1.ConditionUnknown),
			pod("a", "dead", corev1.PodRunning, deleted), pod("stays", "dead", corev1.PodRunning),
			pod("b", "ready", corev1.PodRunning, deleted), pod("c", "lost", corev1.PodRunning, deleted))
		api.Run(t, Descriptor())
		api.Settle()
		api.Expect(t, "patch v1/pods/status default/a", "delete v1/pods default/a")
		p := pod("a", "", "")
		api.Get(t, p)
		if p.Status.Phase != corev1.PodFailed || len(p.Status.Conditions) != 0 {
			t.Errorf("status = %+v, want Failed and no condition", p.Status)
		}
	})
}

// TestAStaleOutOfServiceTaintKillsNothing: there was a bug by which pods were force-deleted after the operator had removed
// the taint, because the cache of nodes was stale.
func TestAStaleOutOfServiceTaintKillsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node("n", corev1.ConditionUnknown, corev1.TaintNodeOutOfService)
		api := kittest.New(t, n)
		api.Run(t, Descriptor())
		api.Settle()
		api.FreezeWatch(corev1.SchemeGroupVersion.WithKind("Node"), true)
		n.Spec.Taints, n.Status.Conditions[0].Status = nil, corev1.ConditionTrue
		api.Update(t, n)
		api.Create(t, pod("p", "n", corev1.PodRunning, deleted))
		api.Pass(2 * time.Minute)
		if w := api.Writes(); len(w) != 0 {
			t.Errorf("writes = %v, want none", w)
		}
	})
}

// TestAPodThatIsHeldIsDeletedOnce: there was a bug by which each sweep again deleted tens of thousands of pods that existed
// only because of their finalizers.
func TestAPodThatIsHeldIsDeletedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		for i := range 50 {
			api.Create(t, pod(fmt.Sprintf("orphan-%d", i), "gone", corev1.PodRunning, held))
			api.Create(t, pod(fmt.Sprintf("unscheduled-%d", i), "", corev1.PodPending, deleted))
			api.Create(t, pod(fmt.Sprintf("finished-%d", i), "gone", corev1.PodFailed, held))
		}
		api.Run(t, withThreshold(t, 1))
		api.Pass(2 * time.Minute)
		if n := len(deletes(api)); n != 150 {
			t.Errorf("%d deletes of 150 pods", n)
		}
		api.TakeWrites()
		api.Pass(10 * time.Minute)
		if w := api.Writes(); len(w) != 0 {
			t.Errorf("later sweeps wrote %d times, as %s", len(w), w[0])
		}
	})
}

// TestASweepRemovesManyPodsAtOnce makes each delete take half a second: one after the other, 1,000 pods would take minutes.
func TestASweepRemovesManyPodsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		for i := range 1000 {
			api.Create(t, pod(fmt.Sprintf("p%d", i), "gone", corev1.PodSucceeded))
		}
		var gauge kittest.Gauge
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "delete" {
				gauge.Hold(500 * time.Millisecond)
			}
			return nil
		})
		api.Run(t, withThreshold(t, 0))
		api.Pass(41 * time.Second)
		api.Pass(10 * time.Second)
		if n := len(deletes(api)); n != 1000 || gauge.Most() < 50 {
			t.Errorf("%d of 1000 pods were deleted within ten seconds, at most %d at once", n, gauge.Most())
		}
	})
}

func TestAFailureKeepsNobodyElseBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, pod("bad", "", corev1.PodPending, deleted), pod("good", "", corev1.PodPending, deleted))
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "patch" && r.Name == "bad" {
				return kittest.Refuse(500, "no")
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Settle()
		if got := deletes(api); !slices.Equal(got, []string{"good"}) {
			t.Fatalf("deleted %v, want good alone: a pod that could not be marked is not deleted", got)
		}
		api.Unreact()
		api.Pass(20 * time.Second)
		api.Settle()
		if got := deletes(api); !slices.Equal(got, []string{"good", "bad"}) {
			t.Errorf("deleted %v, want bad at the next sweep", got)
		}
	})
}

func TestASuccessorOfTheSameNameIsNotHit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := pod("web-0", "", corev1.PodPending, deleted)
		api := kittest.New(t, old)
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "patch" {
				var p struct{ Metadata struct{ UID string } }
				if err := json.Unmarshal(r.Patch, &p); err != nil || p.Metadata.UID != string(old.UID) {
					t.Errorf("patch %s has not the UID %s", r.Patch, old.UID)
				}
				api.Unreact()
				api.Remove(t, old)
				api.Create(t, pod("web-0", "", corev1.PodPending))
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Pass(time.Minute)
		p := pod("web-0", "", "")
		if !api.Get(t, p) || p.Status.Phase != corev1.PodPending || p.DeletionTimestamp != nil {
			t.Errorf("the successor was hit: %+v", p.Status)
		}
	})
}
