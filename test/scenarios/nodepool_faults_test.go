package scenarios

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"orrery/hack/localcluster/cluster"
	"orrery/hack/localcluster/faultproxy"
)

// TestNodePoolsUnderFaults changes and deletes pools while answers are lost and requests refused, and kills the daemon in
// between: in the end the nodes are what they should be, and then what they were.
func TestNodePoolsUnderFaults(t *testing.T) {
	t.Parallel()
	const nodes = 20
	e := start(t, cluster.Options{Nodes: nodes, Untaint: true})
	e.turmoil = true
	e.mayEnd = true // it is killed
	e.kubectl(t, "apply", "-f", manifest("nodepool", "rbac.yaml"), "-f", manifest("crds"))
	e.kubectl(t, "wait", "--for=condition=Established", "crd/nodepools.nodes.orrery.dev")
	f := newFaults(t, e)
	args := append([]string{"--kubeconfig=" + e.throughServer(t, f.URL()), "--controllers=nodepool-controller"}, shortLease...)
	e.manage(t, cluster.Orrery, args...)
	e.kubectl(t, "label", "nodes", "--all", "pool-a=", "pool-b=", "team=theirs")
	var before []string
	for i := range nodes {
		before = append(before, asGiven(e.node(t, fmt.Sprintf("node-%d", i+1))))
	}
	var refused, lostAnswers atomic.Int64
	f.Misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case onLease(r) || r.Method == http.MethodGet || rand.IntN(3) > 0:
			return false
		case rand.IntN(2) == 0:
			faultproxy.Refuse(w, http.StatusConflict, "Conflict")
		default:
			faultproxy.Refuse(w, http.StatusInternalServerError, "InternalError")
		}
		refused.Add(1)
		return true
	}, func(r *http.Response) error {
		if r.Request.Method == http.MethodPatch && !strings.Contains(r.Request.URL.Path, "/leases/") && rand.IntN(4) == 0 {
			lostAnswers.Add(1)
			return errors.New("lost")
		}
		return nil
	})
	for round := range 3 {
		e.nodePool(t, "a", fmt.Sprintf(`priority: %d, labels: {team: a%d, a: x}, taints: [{key: a, value: v%d, effect: NoSchedule}]`, round%2, round, round))
		e.nodePool(t, "b", fmt.Sprintf(`priority: %d, labels: {team: b%d, b: x}, taints: [{key: once, effect: NoSchedule, propagation: OnJoin}]`, 1-round%2, round))
		time.Sleep(700 * time.Millisecond)
		if err := e.orrery().Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		exited(t, e.orrery(), patience)
		e.manage(t, cluster.Orrery, args...)
	}
	for i := range nodes {
		e.carries(t, fmt.Sprintf("node-%d", i+1), "label team=b2", "label a=x", "label b=x", "taint a=v2:NoSchedule", "taint once=:NoSchedule")
	}
	e.kubectl(t, "delete", "npool", "a", "b", "--wait=false")
	time.Sleep(300 * time.Millisecond)
	if err := e.orrery().Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	exited(t, e.orrery(), patience)
	e.manage(t, cluster.Orrery, args...)
	e.gone(t, "npool", "default", "a")
	e.gone(t, "npool", "default", "b")
	f.Misbehave(nil, nil)
	e.kubectl(t, "taint", "nodes", "--all", "once-") // is nobody's
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i+1)
		if got := asGiven(e.node(t, name)); got != before[i] {
			t.Errorf("%s is\n%s\nand was\n%s", name, got, before[i])
		}
	}
	t.Logf("%d requests were refused, %d answers lost", refused.Load(), lostAnswers.Load())
	if refused.Load() == 0 || lostAnswers.Load() == 0 {
		t.Error("nothing went wrong: the test is not one")
	}
}
