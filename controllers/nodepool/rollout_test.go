package nodepool

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"orrery/api/nodes/v1alpha1"
	"orrery/controllers/nodepool/record"
)

func TestTakeTurns(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	most := func(v intstr.IntOrString) v1alpha1.Rollout { return v1alpha1.Rollout{MaxUpdating: &v} }
	three := int32(3)
	idle := candidate{name: "idle"}
	for name, tc := range map[string]struct {
		rollout v1alpha1.Rollout
		all     []candidate
		want    string
		waiting int
		broken  string
		next    time.Duration
	}{
		"nothing to do":                       {rollout: most(intstr.FromInt32(1)), all: []candidate{idle, idle}},
		"no bound, no turn":                   {all: []candidate{{name: "a", need: change}, {name: "b", need: change}}},
		"one at a time":                       {rollout: most(intstr.FromInt32(1)), all: []candidate{{name: "a", need: change}, {name: "b", need: change}}, want: "a", waiting: 1},
		"a percentage is rounded up":          {rollout: most(intstr.FromString("34%")), all: []candidate{{name: "a", need: change}, {name: "b", need: change}, {name: "c", need: change}}, want: "a b", waiting: 1},
		"who has a turn keeps it":             {rollout: most(intstr.FromInt32(1)), all: []candidate{{name: "a", need: change}, {name: "b", need: change, granted: true}}, want: "b", waiting: 1},
		"evictions one at a time by default":  {all: []candidate{{name: "a", need: eviction}, {name: "b", need: eviction}, {name: "c", need: change}}, want: "a", waiting: 1},
		"more evictions":                      {rollout: v1alpha1.Rollout{NoExecuteMaxUpdating: &three}, all: []candidate{{name: "a", need: eviction}, {name: "b", need: eviction}}, want: "a b"},
		"evictions within the general bound":  {rollout: v1alpha1.Rollout{NoExecuteMaxUpdating: &three, MaxUpdating: new(intstr.FromInt32(1))}, all: []candidate{{name: "a", need: eviction}, {name: "b", need: eviction}}, want: "a", waiting: 1},
		"who was just changed counts":         {rollout: most(intstr.FromInt32(1)), all: []candidate{{name: "a", until: now.Add(time.Minute)}, {name: "b", need: change}}, waiting: 1, next: time.Minute},
		"who was changed a while ago doesn't": {rollout: most(intstr.FromInt32(1)), all: []candidate{{name: "a", until: now.Add(-time.Second)}, {name: "b", need: change}}, want: "b"},
		"a broken node stops all":             {rollout: most(intstr.FromInt32(9)), all: []candidate{{name: "a", broken: true}, {name: "b", need: change, granted: true}}, waiting: 1, broken: "a"},
	} {
		got := takeTurns(tc.all, tc.rollout, now)
		granted := strings.Join(slices.Sorted(maps.Keys(got.granted)), " ")
		if granted != tc.want || got.waiting != tc.waiting || got.brokenNode != tc.broken || got.next != tc.next {
			t.Errorf("%s: granted %q, waiting %d, broken %q, next %v", name, granted, got.waiting, got.brokenNode, got.next)
		}
	}
}

func TestHeartbeatsWakeNothing(t *testing.T) {
	base := newNode("a", "pool-gpu")
	base.Spec.Taints = []corev1.Taint{{Key: "x", Effect: "NoSchedule"}}
	for name, tc := range map[string]struct {
		change     func(*corev1.Node)
		node, pool bool
	}{
		"heartbeat": {change: func(n *corev1.Node) {
			n.ResourceVersion, n.Status.Conditions[0].LastHeartbeatTime = "2", metav1.Now()
		}},
		"images":         {change: func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{}} }},
		"volumes in use": {change: func(n *corev1.Node) { n.Status.VolumesInUse = []corev1.UniqueVolumeName{"v"} }},
		"cordon":         {change: func(n *corev1.Node) { n.Spec.Unschedulable = true }},
		"time of a taint": {change: func(n *corev1.Node) {
			now := metav1.Now()
			n.Spec.Taints[0].TimeAdded = &now
		}},
		"label":       {change: func(n *corev1.Node) { n.Labels["x"] = "y" }, node: true, pool: true},
		"annotation":  {change: func(n *corev1.Node) { n.Annotations["x"] = "y" }, node: true, pool: true},
		"taint":       {change: func(n *corev1.Node) { n.Spec.Taints[0].Value = "y" }, node: true, pool: true},
		"made again":  {change: func(n *corev1.Node) { n.UID = types.UID("other") }, node: true, pool: true},
		"readiness":   {change: func(n *corev1.Node) { n.Status.Conditions[0].Status = "Unknown" }, pool: true},
		"capacity":    {change: func(n *corev1.Node) { n.Status.Capacity["cpu"] = resource.MustParse("8") }, pool: true},
		"allocatable": {change: func(n *corev1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("3") }, pool: true},
	} {
		next := base.DeepCopy()
		tc.change(next)
		if node, pool := nodeChanged(base, next), countChanged(base, next); node != tc.node || pool != tc.pool {
			t.Errorf("%s: wakes the node %t, its pools %t", name, node, pool)
		}
	}
	if !nodeChanged(nil, base) || !nodeChanged(base, nil) || !countChanged(nil, base) || !countChanged(base, nil) {
		t.Error("a node that comes or goes wakes nothing")
	}
}

func TestRepairsAreFreeAtFirstAndThenBackOff(t *testing.T) {
	l := newLedger()
	k := []record.Key{{Kind: record.Label, Name: "x"}}
	now := time.Unix(1_800_000_000, 0)
	var waits []time.Duration
	for range 14 {
		l.repaired("n", k, now)
		_, wait := l.heldOff("n", now)
		waits = append(waits, wait)
		now = now.Add(wait + time.Second)
	}
	if waits[0] != 0 || waits[1] != 0 || waits[2] != firstPause || waits[3] != 2*firstPause || waits[13] != longestPause {
		t.Errorf("waits %v", waits)
	}
	if held, _ := l.heldOff("n", now.Add(2*calm)); held != nil || len(l.nodes["n"].repairs) != 0 {
		t.Errorf("after a calm time %v are held off", held)
	}
	l.repaired("n", k, now.Add(2*calm))
	if held, _ := l.heldOff("n", now.Add(2*calm)); held != nil {
		t.Error("the first repair after a calm time holds off")
	}
}

func TestStartupTaint(t *testing.T) {
	for text, want := range map[string]string{"": "none", "a:NoSchedule": "a:NoSchedule", "x.io/a=v:NoExecute": "x.io/a:NoExecute", "a": "error", ":NoSchedule": "error", "a:Never": "error"} {
		got := "none"
		switch taint, err := parseTaint(text); {
		case err != nil:
			got = "error"
		case taint != nil:
			got = taint.Key + ":" + string(taint.Effect)
		}
		if got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}
