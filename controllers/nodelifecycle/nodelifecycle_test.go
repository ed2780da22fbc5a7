package nodelifecycle

import (
	"fmt"
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

func node(name, zone string, ready corev1.ConditionStatus, taints ...corev1.Taint) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Spec:       corev1.NodeSpec{Taints: taints},
	}
	if zone != "" {
		n.Labels[corev1.LabelTopologyZone] = zone
	}
	if ready != "" {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	}
	return n
}

func noSchedule(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule}
}

func noExecuteTaint(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
}

func TestTaintsFollowConditions(t *testing.T) {
	foreign := noSchedule("example.com/own")
	for _, tc := range []struct {
		name string
		node *corev1.Node
		want []corev1.Taint
	}{
		{"ready", node("n", "", corev1.ConditionTrue), nil},
		{"not ready", node("n", "", corev1.ConditionFalse), []corev1.Taint{noSchedule(corev1.TaintNodeNotReady)}},
		{"unknown replaces not ready", node("n", "", corev1.ConditionUnknown, noSchedule(corev1.TaintNodeNotReady)), []corev1.Taint{noSchedule(corev1.TaintNodeUnreachable)}},
		{"what others set stays", node("n", "", corev1.ConditionTrue, foreign, noSchedule(corev1.TaintNodeNotReady)), []corev1.Taint{foreign}},
		{"a living node loses both kinds", node("n", "", corev1.ConditionTrue, noExecuteTaint(corev1.TaintNodeUnreachable), noSchedule(corev1.TaintNodeUnreachable)), nil},
		{"a lost node keeps its NoExecute taint", node("n", "", corev1.ConditionUnknown, noExecuteTaint(corev1.TaintNodeUnreachable)),
			[]corev1.Taint{noExecuteTaint(corev1.TaintNodeUnreachable), noSchedule(corev1.TaintNodeUnreachable)}},
	} {
		if got := followConditions(tc.node); !sameTaints(got, tc.want) {
			t.Errorf("%s: taints %v, want %v", tc.name, taintTexts(got), taintTexts(tc.want))
		}
	}
	n := node("n", "", corev1.ConditionTrue)
	n.Spec.Unschedulable = true
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue})
	if got := followConditions(n); !sameTaints(got, []corev1.Taint{noSchedule(corev1.TaintNodeDiskPressure), noSchedule(corev1.TaintNodeUnschedulable)}) {
		t.Errorf("cordoned under pressure: %v", taintTexts(got))
	}
}

func TestOldLabelsFollowNewOnes(t *testing.T) {
	n := node("n", "", "")
	n.Labels = map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: "arm64", "beta.kubernetes.io/arch": "amd64"}
	got := missingLabels(n)
	if len(got) != 2 || got["beta.kubernetes.io/os"] != "linux" || got["beta.kubernetes.io/arch"] != "arm64" {
		t.Errorf("labels = %v", got)
	}
	n.Labels = map[string]string{"beta.kubernetes.io/arch": "amd64"}
	if got := missingLabels(n); got != nil {
		t.Errorf("without the new labels there is nothing to follow, got %v", got)
	}
}

func TestSignsOfLife(t *testing.T) {
	start := time.Unix(10000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	lease := func(renewed int, rv string) *coordinationv1.Lease {
		m := metav1.NewMicroTime(at(renewed))
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: rv}, Spec: coordinationv1.LeaseSpec{RenewTime: &m}}
	}
	beat := func(s int) *corev1.Node {
		n := node("n", "", corev1.ConditionTrue)
		n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(at(s))
		return n
	}
	fresh := node("n", "", "")
	fresh.CreationTimestamp = metav1.NewTime(at(-30))
	var h *health
	if h = h.observe(fresh, nil, at(0)); !h.seen.Equal(at(-30)) {
		t.Errorf("a node that never reported is as old as its creation, got %s", h.seen)
	}
	if h = h.observe(beat(1), nil, at(5)); !h.seen.Equal(at(5)) {
		t.Errorf("the first status is a sign of life, got %s", h.seen)
	}
	if h = h.observe(beat(1), nil, at(10)); !h.seen.Equal(at(5)) {
		t.Errorf("the same heartbeat is none, got %s", h.seen)
	}
	if h = h.observe(beat(1), lease(9, "2"), at(12)); !h.seen.Equal(at(12)) || h.lease != "2" {
		t.Errorf("a lease is one, got %s %q", h.seen, h.lease)
	}
	if h = h.observe(beat(1), lease(9, "2"), at(20)); !h.seen.Equal(at(12)) {
		t.Errorf("the same lease is none, got %s", h.seen)
	}
	if h = h.observe(beat(15), lease(9, "2"), at(22)); !h.seen.Equal(at(22)) || h.lease != "2" {
		t.Errorf("another heartbeat is one, and the lease is remembered, got %s %q", h.seen, h.lease)
	}
	if h.silentFor(10*time.Second, at(32)) || !h.silentFor(10*time.Second, at(33)) {
		t.Error("silence begins after the grace period, not with it")
	}
}

func TestZoneStates(t *testing.T) {
	for _, tc := range []struct {
		ready, lost int
		want        zoneState
	}{
		{10, 0, stateNormal}, {0, 1, stateFull}, {1, 2, stateNormal}, {4, 6, statePartial}, {5, 5, stateNormal}, {0, 10, stateFull},
	} {
		if got := (count{ready: tc.ready, lost: tc.lost}).state(0.55); got != tc.want {
			t.Errorf("%d ready, %d lost: %s, want %s", tc.ready, tc.lost, got, tc.want)
		}
	}
	z := newZones(options{evictionRate: 0.1, secondaryRate: 0.01, largeCluster: 50}, func(string) {})
	for _, tc := range []struct {
		state zoneState
		size  int
		want  float32
	}{
		{stateNormal, 10, 0.1}, {stateFull, 10, 0.1}, {statePartial, 50, 0}, {statePartial, 51, 0.01},
	} {
		if got := z.rate(tc.state, tc.size); got != tc.want {
			t.Errorf("%s of %d nodes: %v per second, want %v", tc.state, tc.size, got, tc.want)
		}
	}
}

// cluster is a kittest API with nodes whose leases are renewed by hand.
type cluster struct {
	*kittest.API
	t     *testing.T
	nodes []string
}

func newCluster(t *testing.T, zones, perZone int) *cluster {
	c := &cluster{API: kittest.New(t), t: t}
	c.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease}})
	for z := range zones {
		for i := range perZone {
			name := fmt.Sprintf("z%d-n%d", z, i)
			c.nodes = append(c.nodes, name)
			c.Create(t, node(name, fmt.Sprintf("zone%d", z), corev1.ConditionTrue))
			m := metav1.NowMicro()
			c.Create(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &m}})
			c.Create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "on-" + name},
				Spec:   corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
				Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}})
		}
	}
	return c
}

// live lets time pass while all nodes but the silent ones renew their leases.
func (c *cluster) live(d time.Duration, silent func(node string) bool) {
	for range int(d / (5 * time.Second)) {
		for _, name := range c.nodes {
			if silent(name) {
				continue
			}
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
			c.Get(c.t, lease)
			m := metav1.NowMicro()
			lease.Spec.RenewTime = &m
			c.Update(c.t, lease)
		}
		time.Sleep(5 * time.Second)
		c.Settle()
	}
}

// tainted returns how many nodes have the NoExecute taint of lost nodes.
func (c *cluster) tainted() (n int) {
	for _, one := range kittest.List[corev1.Node](c.t, c.API, "") {
		if slices.ContainsFunc(one.Spec.Taints, lost) {
			n++
		}
	}
	return n
}

func nobody(string) bool { return false }

func TestASilentNodeIsGivenUpAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 4)
		c.Run(t, Descriptor())
		c.live(2*time.Minute, nobody)
		c.TakeWrites()
		lostOne := func(name string) bool { return name == "z0-n0" }
		c.live(90*time.Second, lostOne)
		n := node("z0-n0", "", "")
		c.Get(t, n)
		if ready := condition(n, corev1.NodeReady); ready == nil || ready.Status != corev1.ConditionUnknown || ready.Reason != "NodeStatusUnknown" {
			t.Fatalf("ready condition = %+v, want Unknown", ready)
		}
		if !hasNoExecute(n, corev1.TaintNodeUnreachable) || c.tainted() != 1 {
			t.Errorf("taints = %v, %d nodes tainted", taintTexts(n.Spec.Taints), c.tainted())
		}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "on-z0-n0"}}
		c.Get(t, p)
		if p.Status.Conditions[0].Status != corev1.ConditionFalse {
			t.Error("its pod has to be not ready")
		}
		// The kubelet is back and reports.
		n.Status.Conditions[0].Status, n.Status.Conditions[0].LastHeartbeatTime = corev1.ConditionTrue, metav1.Now()
		c.Update(t, n)
		c.Settle()
		c.Get(t, n)
		if len(n.Spec.Taints) != 0 {
			t.Errorf("taints after the first sign of life = %v, want none", taintTexts(n.Spec.Taints))
		}
	})
}

// TestAFrozenLeaseWatchMarksNobody is the report that healthy nodes were evicted when the watch of leases hung.
func TestAFrozenLeaseWatchMarksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 4)
		c.Run(t, Descriptor())
		c.live(time.Minute, nobody)
		leases := coordinationv1.SchemeGroupVersion.WithKind("Lease")
		c.FreezeWatch(leases, true)
		c.live(2*time.Minute, nobody)
		for _, n := range kittest.List[corev1.Node](t, c.API, "") {
			if condition(n, corev1.NodeReady).Status != corev1.ConditionTrue {
				t.Errorf("node %s was marked %s", n.Name, condition(n, corev1.NodeReady).Status)
			}
		}
		c.FreezeWatch(leases, false)
		c.live(time.Minute, nobody)
		if c.tainted() != 0 {
			t.Error("nodes were tainted after the watch came back")
		}
	})
}

func TestEvictionsFollowTheStateOfTheZone(t *testing.T) {
	for _, tc := range []struct {
		name   string
		silent func(string) bool
		after  time.Duration // of silence
		least  int
		most   int
	}{
		{"part of a small zone: none", func(n string) bool { return strings.HasPrefix(n, "z0-") && n <= "z0-n5" }, 5 * time.Minute, 0, 2},
		{"a whole zone: the normal rate", func(n string) bool { return strings.HasPrefix(n, "z0-") }, 3 * time.Minute, 8, 10},
		{"all zones: nobody", func(string) bool { return true }, 5 * time.Minute, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3, 10)
				c.Run(t, Descriptor())
				c.live(2*time.Minute, nobody)
				c.live(tc.after, tc.silent)
				if n := c.tainted(); n < tc.least || n > tc.most {
					t.Errorf("%d nodes tainted, want %d to %d", n, tc.least, tc.most)
				}
			})
		})
	}
}
