package scenarios

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNodePoolRollout changes nodes one after the other, with a pause, and lets a node in only after its first write.
func TestNodePoolRollout(t *testing.T) {
	t.Parallel()
	const nodes, pause = 4, 2 * time.Second
	e := withPools(t, nodes, "--nodepool-startup-taint=example.com/new:NoSchedule")
	rollout := fmt.Sprintf(`rollout: {maxUpdating: 1, intervalSeconds: %d}`, int(pause.Seconds()))
	e.nodePool(t, "turns", `labels: {team: one}, `+rollout)
	for i := range nodes {
		e.label(t, fmt.Sprintf("node-%d", i+1), "pool-turns=")
	}
	for i := range nodes { // they were there before the pool, so this is a rollout too
		e.carries(t, fmt.Sprintf("node-%d", i+1), "label team=one")
	}

	begin := time.Now()
	e.nodePool(t, "turns", `labels: {team: two}, `+rollout)
	for i := range nodes {
		e.carries(t, fmt.Sprintf("node-%d", i+1), "label team=two")
	}
	writes := e.audit(t, func(a auditEvent) bool {
		return a.account() == poolController && a.kind() == "nodes" && a.writes() && a.Received.After(begin)
	})
	slices.SortFunc(writes, func(a, b auditEvent) int { return a.Received.Compare(b.Received) })
	if len(writes) != nodes {
		t.Errorf("%d writes to change %d nodes", len(writes), nodes)
	}
	for i, a := range writes[1:] {
		if gap := a.Received.Sub(writes[i].Received); gap < pause {
			t.Errorf("%s was changed %v after %s, want %v at least", a.Object.Name, gap, writes[i].Object.Name, pause)
		}
	}

	must(e.Client().CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "late", Labels: map[string]string{"pool-turns": ""}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "example.com/new", Effect: corev1.TaintEffectNoSchedule}}},
	}, metav1.CreateOptions{}))(t)
	e.carries(t, "late", "label team=two", "no taint example.com/new")
	if n := e.poolWrites(t, "late"); n != 1 {
		t.Errorf("%d writes to a new node, want one that sets its labels and takes the start-up taint away", n)
	}
}
