package statefulset

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestAnUpdateReplacesOnePodAtATimeFromTheTop(t *testing.T) {
	for name, opts := range map[string][]setOption{"ordered": nil, "parallel": {parallel}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t, newSet("web", 3, opts...))
				c.podWrites()
				c.change("web", image("img:2"))
				c.Pass(time.Minute)
				want := "delete web-2, create web-2, delete web-1, create web-1, delete web-0, create web-0"
				if got := c.podWrites(); got != want || c.images() != "0:2 1:2 2:2" {
					t.Errorf("it did %s", got)
				}
				revs, s := c.revisions(), c.set("web").Status
				if len(revs) != 2 || s.CurrentRevision != revs[1].Name || s.UpdateRevision != revs[1].Name || c.numbers("web") != [5]int32{3, 3, 3, 3, 3} {
					t.Errorf("%d revisions, status %+v", len(revs), s)
				}
			})
		})
	}
}

func TestAPartitionHoldsTheLowerPodsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 4, from(3)))
		first := c.set("web").Status.CurrentRevision
		c.change("web", image("img:2"), rolling("1", 2))
		c.Pass(time.Minute)
		if got := c.images(); got != "3:1 4:1 5:2 6:2" {
			t.Errorf("images %s", got)
		}
		s := c.set("web").Status
		if s.CurrentRevision != first || s.UpdateRevision == first || c.numbers("web") != [5]int32{4, 4, 4, 2, 2} {
			t.Errorf("status %+v", s)
		}
		// A pod below the partition comes back as it was, one above as it is to be.
		for _, pod := range []string{"web-4", "web-5"} {
			c.Delete(t, c.pod(pod))
		}
		c.Pass(time.Minute)
		if got := c.images(); got != "3:1 4:1 5:2 6:2" || revisionOf(c.pod("web-4")) != first {
			t.Errorf("images %s", got)
		}
		c.change("web", rolling("1", 0))
		c.Pass(time.Minute)
		if got := c.images(); got != "3:2 4:2 5:2 6:2" || c.set("web").Status.CurrentRevision != s.UpdateRevision {
			t.Errorf("images %s", got)
		}
	})
}

// kubernetes/kubernetes#75498: a pod of neither revision that goes is none of the current ones.
func TestPodsOfASupersededUpdateAreNotCountedAsCurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 3, rolling("1", 1)))
		c.change("web", image("img:2"))
		c.Pass(time.Minute)
		c.change("web", image("img:3"))
		c.Pass(100 * time.Millisecond)
		if got := c.numbers("web"); c.pods() != "-web-2 web-0 web-1" || got[3] != 1 || got[4] != 0 {
			t.Errorf("pods %s, status %v", c.pods(), got)
		}
	})
}

// kubernetes/kubernetes#136831: upstream 1.37 does not wait for minReadySeconds here.
func TestAnUpdateIsCompleteOnceAllPodsAreReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 1, minReady(60)))
		c.change("web", image("img:2"))
		c.Pass(30 * time.Second)
		if s := c.set("web").Status; s.CurrentRevision != s.UpdateRevision || s.ReadyReplicas != 1 || s.AvailableReplicas != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestARollbackTakesTheOldRevisionUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 2))
		first := c.revisions()[0]
		c.change("web", image("img:2"))
		c.Pass(time.Minute)
		c.change("web", image("img:1"))
		c.Pass(time.Minute)
		revs := c.revisions()
		if len(revs) != 2 || revs[1].UID != first.UID || revs[1].Revision != 3 || c.set("web").Status.CurrentRevision != first.Name || c.images() != "0:1 1:1" {
			t.Errorf("revisions %v, images %s", revs, c.images())
		}
	})
}

// kubernetes/kubernetes#136833
func TestAnOnDeleteSetTellsWhenAllPodsHaveBeenReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 2, strategy(appsv1.OnDeleteStatefulSetStrategyType)))
		first := c.set("web").Status.CurrentRevision
		c.podWrites()
		c.change("web", image("img:2"))
		c.Pass(time.Minute)
		if s := c.set("web").Status; c.podWrites() != "" || s.CurrentRevision != first || s.UpdateRevision == first || c.numbers("web") != [5]int32{2, 2, 2, 2, 0} {
			t.Errorf("status %+v", s)
		}
		c.Delete(t, c.pod("web-0"))
		c.Pass(time.Minute)
		if s := c.set("web").Status; s.CurrentRevision != first || c.images() != "0:2 1:1" || c.numbers("web") != [5]int32{2, 2, 2, 1, 1} {
			t.Errorf("half way: status %+v, images %s", s, c.images())
		}
		c.Delete(t, c.pod("web-1"))
		c.Pass(time.Minute)
		if s := c.set("web").Status; s.CurrentRevision != s.UpdateRevision || s.CurrentRevision == first || c.numbers("web") != [5]int32{2, 2, 2, 2, 2} {
			t.Errorf("status %+v", s)
		}
	})
}

func TestHistoryIsTruncatedAndPodsKeepTheirRevisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newSet("web", 3)
		set.Spec.RevisionHistoryLimit = new(int32(1))
		c := start(t, set)
		first := c.set("web").Status.CurrentRevision
		for n := 2; n < 8; n++ { // web-0 and web-1 keep the first one, web-2 has the last
			c.change("web", image(fmt.Sprintf("img:%d", n)), rolling("1", 2))
			c.Pass(time.Minute)
		}
		var numbers []int64
		for _, r := range c.revisions() {
			numbers = append(numbers, r.Revision)
		}
		if fmt.Sprint(numbers) != "[1 6 7]" || c.revisions()[0].Name != first {
			t.Errorf("revisions %v, want the first and last in use, and one more", numbers)
		}
	})
}

// stateOf builds a state from one letter for each ordinal: r ready, n not ready, - missing, g going, f finished; capital
// letters are of the update revision.
func stateOf(t *testing.T, pods string, opts ...setOption) *state {
	t.Helper()
	set := newSet("web", int32(len(pods)), opts...)
	revs := revisions{current: named("old"), update: named("new")}
	var all []*corev1.Pod
	for ordinal, letter := range pods {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName("web", ordinal), Labels: map[string]string{
			appsv1.StatefulSetRevisionLabel: "old", appsv1.StatefulSetPodNameLabel: podName("web", ordinal)}}}
		if strings.ToUpper(string(letter)) == string(letter) {
			pod.Labels[appsv1.StatefulSetRevisionLabel] = "new"
		}
		pod.Status.Phase = corev1.PodRunning
		switch strings.ToLower(string(letter)) {
		case "-":
			continue
		case "r":
			makeReady(pod)
		case "g":
			makeReady(pod)
			pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		case "f":
			pod.Status.Phase = corev1.PodFailed
		}
		all = append(all, pod)
	}
	s := observe(set, all, revs, strategies{maxUnavailable: true}, time.Now())
	s.claim = func(string) (*corev1.PersistentVolumeClaim, bool) { return nil, false }
	return s
}

func ordinals(members []member) string {
	var out []string
	for _, m := range members {
		out = append(out, fmt.Sprint(m.ordinal))
	}
	return strings.Join(out, " ")
}

func TestAnUpdateStaysWithinWhatMayBeUnavailable(t *testing.T) {
	for _, c := range []struct {
		name, pods        string
		max               string
		partition         int32
		ordered, parallel string
	}{
		{"one", "rrrr", "1", 0, "3", "3"},
		{"two", "rrrr", "2", 0, "3 2", "3 2"},
		{"half of five, rounded down", "rrrrr", "50%", 0, "4 3", "4 3"},
		{"a percentage that rounds to none", "rrr", "10%", 0, "2", "2"},
		{"more than there are", "rr", "5", 0, "1 0", "1 0"},
		{"updated ones are passed by", "rrRr", "2", 0, "3 1", "3 1"},
		{"the partition holds", "rrrr", "4", 2, "3 2", "3 2"},
		{"a partition beyond the set", "rrrr", "4", 9, "", ""},
		{"all done", "RRRR", "4", 0, "", ""},
		{"one is going", "rrrg", "1", 0, "", ""},
		{"one is going, two may be away", "rrrg", "2", 0, "", "2"},
		{"one is missing", "rrr-", "1", 0, "", ""},
		{"broken ones go whatever the limit is", "nnrr", "1", 0, "", "1 0"},
		{"broken ones first, the rest of the limit for others", "nrrr", "2", 0, "", "0 3"},
		{"a broken one below the partition uses the limit up", "nrrr", "1", 1, "", ""},
		{"a broken one that is updated uses the limit up", "rrrN", "1", 0, "", ""},
		{"what has finished goes by itself", "rrrf", "1", 0, "", ""},
	} {
		s := stateOf(t, c.pods, rolling(c.max, c.partition))
		if got := ordinals(s.plan().update); got != c.ordered {
			t.Errorf("%s: an ordered set deletes %q, want %q", c.name, got, c.ordered)
		}
		s = stateOf(t, c.pods, rolling(c.max, c.partition), parallel)
		if got := ordinals(s.plan().update); got != c.parallel {
			t.Errorf("%s: a parallel set deletes %q, want %q", c.name, got, c.parallel)
		}
	}
}

func TestWithoutTheGateOnePodMayBeUnavailable(t *testing.T) {
	for pods, want := range map[string]string{
		"rrrr": "3", "rrrR": "2", "rrrN": "", "rrRN": "", "rr-R": "", "rrr-": "", "rrnR": "2", "nrrR": "2", "rrgR": "", "RRRR": "",
	} {
		s := stateOf(t, pods, rolling("3", 0), parallel)
		s.rules.maxUnavailable = false
		if got := ordinals(s.planUpdate()); got != want {
			t.Errorf("%s: deletes %q, want %q", pods, got, want)
		}
	}
}

func TestMaxUnavailableIsReadGenerously(t *testing.T) {
	for text, want := range map[string]int{"3": 3, "0": 1, "25%": 2, "1%": 1, "100%": 10, "x": 1} {
		limit := intstr.Parse(text)
		if got := mayBeUnavailable(&limit, 10); got != want {
			t.Errorf("%s of 10: %d, want %d", text, got, want)
		}
	}
	if got := mayBeUnavailable(nil, 10); got != 1 {
		t.Errorf("nothing: %d, want 1", got)
	}
}

func TestRecreateReplacesAllPodsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newSet("web", 3, strategy(appsv1.RecreateStatefulSetStrategyType)))
		c.SetGate("StatefulSetRecreateStrategy", true)
		c.Run(t, c.kubelets.init)
		c.Run(t, Descriptor())
		c.Pass(time.Minute)
		if s := c.set("web").Status; len(s.Conditions) != 0 || c.numbers("web") != [5]int32{3, 3, 3, 3, 3} {
			t.Errorf("status %+v", s)
		}
		c.podWrites()
		c.change("web", image("img:2"))
		c.Pass(500 * time.Millisecond)
		if s := c.set("web").Status; c.pods() != "-web-0 -web-1 -web-2" || len(s.Conditions) != 1 || s.Conditions[0].Message != "Deleting old revision pods" ||
			s.Conditions[0].Reason != "RecreateInProgress" || s.Conditions[0].Status != corev1.ConditionTrue || s.Conditions[0].Type != appsv1.StatefulSetProgressing {
			t.Errorf("pods %s, status %+v", c.pods(), s)
		}
		c.Pass(time.Minute)
		if got := c.podWrites(); got != "delete web-0, delete web-1, delete web-2, create web-0, create web-1, create web-2" {
			t.Errorf("it did %s", got)
		}
		s := c.set("web").Status
		if s.CurrentRevision != s.UpdateRevision || len(s.Conditions) != 1 || s.Conditions[0].Status != corev1.ConditionFalse ||
			s.Conditions[0].Reason != "RecreateCompleted" || s.Conditions[0].Message != "All pods recreated successfully" {
			t.Errorf("status %+v", s)
		}
	})
}

func TestWithoutTheGateRecreateIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 3, strategy(appsv1.RecreateStatefulSetStrategyType)), newSet("db", 1))
		if got := c.pods(); got != "db-0" {
			t.Errorf("pods %s", got)
		}
		want := "statefulset default/web uses Recreate strategy but feature gate StatefulSetRecreateStrategy is disabled"
		if got := c.events("UnknownStrategy"); len(got) != 1 || got[0] != want {
			t.Errorf("events %q", got)
		}
	})
}

func TestEventsTellOfPodsInKnownWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 1))
		c.change("web", replicas(0))
		c.Pass(time.Minute)
		var got []string
		for _, e := range c.Events() {
			got = append(got, e.Reason+": "+e.Message)
		}
		want := "SuccessfulCreate: Create Pod web-0 in StatefulSet web successful|SuccessfulDelete: Delete Pod web-0 in StatefulSet web successful"
		if strings.Join(got, "|") != want {
			t.Errorf("events %q", got)
		}
	})
}
