package scenarios

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
)

// TestTwoThousandNodes changes a pool of 2,000 nodes: each is written once, soon, and never again, not by a daemon that
// is started anew either.
func TestTwoThousandNodes(t *testing.T) {
	const nodes, limit = 2000, 10 * time.Second
	e := start(t, cluster.Options{NoKwok: true})
	e.kubectl(t, "apply", "-f", manifest("nodepool", "rbac.yaml"), "-f", manifest("crds"))
	e.kubectl(t, "wait", "--for=condition=Established", "crd/nodepools.nodes.orrery.dev")
	var group errgroup.Group
	group.SetLimit(16)
	for i := range nodes {
		group.Go(func() error {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("big-%04d", i), Labels: map[string]string{"pool-big": ""}}}
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Fake"}}
			n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			_, err := e.Client().CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	only := "--controllers=nodepool-controller" // nobody keeps these nodes alive
	e.manage(t, cluster.Orrery, only)
	updated := func(generation int64) error {
		p := e.pool(t, "big")
		if p.Status.NodeCount == nil || p.Status.ObservedGeneration < generation {
			return errors.New("no status yet")
		}
		return errors.Join(differ("nodes", *p.Status.NodeCount, nodes), differ("updated", *p.Status.UpdatedNodeCount, nodes), differ("ready", *p.Status.ReadyNodeCount, nodes))
	}
	e.nodePool(t, "big", `labels: {team: one}`)
	eventually(t, "all have joined", func() error { return updated(1) })
	if n := e.poolWrites(t, ""); n != nodes {
		t.Errorf("%d writes for %d nodes to join", n, nodes)
	}

	slow := slowness(t)
	begin := time.Now()
	e.nodePool(t, "big", `labels: {team: two}, annotations: {example.com/note: x}, taints: [{key: x, effect: NoSchedule}]`)
	eventually(t, "all are changed", func() error { return updated(2) })
	took := time.Since(begin)
	writes := e.audit(t, func(a auditEvent) bool {
		return a.account() == poolController && a.kind() == "nodes" && a.Verb == "patch" && a.Received.After(begin)
	})
	t.Logf("%d nodes were changed in %v, with %d writes to nodes", nodes, took, len(writes))
	if len(writes) != nodes {
		t.Errorf("%d writes for %d nodes", len(writes), nodes)
	}
	if took > limit*max(slow, slowness(t)) {
		t.Errorf("all nodes had the change after %v, want %v", took, limit)
	}

	if err := e.orrery().Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	begin = time.Now()
	p := e.manage(t, cluster.Orrery, only)
	eventually(t, "it follows pools", func() error {
		if !strings.Contains(logOf(t, p), "Following NodePools") {
			return errors.New("not yet")
		}
		return nil
	})
	time.Sleep(3 * time.Second)
	for _, a := range e.audit(t, func(a auditEvent) bool { return a.account() == poolController && a.writes() && a.Received.After(begin) }) {
		t.Errorf("written after the restart: %s", a)
	}
}
