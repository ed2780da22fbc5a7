package scenarios

import (
	"errors"
	"strings"
	"testing"
	"time"

	"orrery/hack/localcluster/cluster"
)

// TestTheNodePoolKindComesAndGoes installs the CRD after the daemon has started, deletes it while pools are at work, and
// installs it again.
func TestTheNodePoolKindComesAndGoes(t *testing.T) {
	t.Parallel()
	e := start(t, cluster.Options{Nodes: 2, Untaint: true})
	// Until the daemon learns that a kind is gone, it goes on asking for it.
	e.expect(`Failed to watch.*nodes\.orrery\.dev`)
	e.kubectl(t, "apply", "-f", manifest("nodepool", "rbac.yaml"))
	p := e.manage(t, cluster.Orrery, "--controllers=*,nodepool-controller")
	const waiting, following, gone = `"Waiting for the kind NodePool`, `"Following NodePools"`, `"The kind NodePool has gone from the server`
	says := func(what string, times int) {
		t.Helper()
		eventually(t, what, func() error { return differ("times in the log", strings.Count(logOf(t, p), what), times) })
	}
	says(waiting, 1)
	time.Sleep(5 * time.Second)
	if n := strings.Count(logOf(t, p), waiting); n != 1 {
		t.Errorf("it said %d times that it waits", n)
	}
	e.kubectl(t, "apply", "-f", manifest("crds"))
	e.kubectl(t, "wait", "--for=condition=Established", "crd/nodepools.nodes.orrery.dev")
	says(following, 1)
	before := asGiven(e.node(t, "node-2"))
	pool := `labels: {team: ml}, taints: [{key: x, effect: NoSchedule}], runtimeClass: {handler: x}`
	e.nodePool(t, "a", pool)
	e.label(t, "node-1", "pool-a=")
	e.carries(t, "node-1", "label team=ml", "taint x=:NoSchedule")

	// The pools go with their kind, and take back what they have put on nodes.
	e.kubectl(t, "delete", "-f", manifest("crds"))
	says(gone, 1)
	e.carries(t, "node-1", "no label team", "no taint x", "no annotation "+poolRecord)
	if got := asGiven(e.node(t, "node-2")); got != before {
		t.Errorf("the other node is %s and was %s", got, before)
	}
	e.kubectl(t, "label", "node", "node-2", "pool-a=") // wakes the loop, which does nothing
	pages := visit(p, e.admin(t))
	for _, name := range []string{"nodepool-controller", "nodepool-controller/pools", "nodepool-controller/kind"} {
		pages.get(t, "/healthz/"+name, 200)
	}

	e.kubectl(t, "apply", "-f", manifest("crds"))
	e.kubectl(t, "wait", "--for=condition=Established", "crd/nodepools.nodes.orrery.dev")
	says(following, 2)
	e.nodePool(t, "a", pool)
	e.carries(t, "node-1", "label team=ml", "taint x=:NoSchedule")
	e.carries(t, "node-2", "label team=ml", "taint x=:NoSchedule")
	e.poolSays(t, "a", "Ready", "True AsAsked")
	if !p.Running() {
		t.Error("it has ended")
	}
	if n := strings.Count(logOf(t, p), waiting); n != 1 {
		t.Error(errors.New("it said again that it waits"))
	}
}
