package scenarios

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
)

// TestNodePools puts nodes through what happens to them in pools, each case on a node of its own.
func TestNodePools(t *testing.T) {
	t.Parallel()
	e := withPools(t, 16)
	cases := []struct {
		name string
		run  func(t *testing.T, e *env, node string)
	}{
		{"a node that joins gets all in one write, and is given back when it leaves", joinAndLeave},
		{"a node that moves is never without its taint", moveWithoutGap},
		{"a node that is made again is a new one", recreated},
		{"two pools and a flip of their priorities", priorityFlip},
		{"drift is repaired", drift},
		{"a taint on join is added once", onJoin},
		{"adopt remembers, skip leaves alone, and both restore", existingKeys},
		{"audit writes nothing and shows its plan", audited},
		{"a paused pool writes nothing and is cleaned up", paused},
		{"retain leaves the node as it is", retained},
		{"delete after relabel", deletedAfterRelabel},
		{"a finalizer removed by force", forcedFinalizer},
		{"a malformed record deletes nothing", malformed},
		{"the last node leaves", lastLeaves},
		{"the RuntimeClass sends a pod to the pool", runtimeClass},
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, e, fmt.Sprintf("node-%d", i+1)) })
	}
	t.Run("a restart writes nothing", func(t *testing.T) { restartWritesNothing(t, e) })
}

func joinAndLeave(t *testing.T, e *env, node string) {
	e.patchNode(t, node, `{"metadata":{"labels":{"team":"before"}},"spec":{"taints":[{"key":"first","effect":"NoSchedule"},{"key":"gpu","value":"old","effect":"NoSchedule"},{"key":"last","effect":"PreferNoSchedule"}]}}`)
	e.nodePool(t, "join", `labels: {team: ml, example.com/x: "1"}, annotations: {example.com/note: hello}, nodeRole: fast, taints: [{key: gpu, value: "yes", effect: NoSchedule}, {key: more, effect: NoSchedule}]`)
	e.label(t, node, "pool-join=")
	e.carries(t, node, "label team=ml", "label example.com/x=1", "annotation example.com/note=hello", "label node-role.kubernetes.io/fast=", "taint gpu=yes:NoSchedule", "taint more=:NoSchedule", "taint first=:NoSchedule")
	if n := e.poolWrites(t, node); n != 1 {
		t.Errorf("%d writes, want one", n)
	}
	e.poolSays(t, "join", "Ready", "True AsAsked")
	eventually(t, "the node is counted", func() error { // a pool without nodes is as asked, too
		s := e.pool(t, "join").Status
		got := [...]int{*s.NodeCount, *s.ReadyNodeCount, *s.UpdatedNodeCount, *s.ConflictedNodeCount, *s.FailedNodeCount}
		if want := [...]int{1, 1, 1, 0, 0}; got != want {
			return fmt.Errorf("nodes, ready, updated, conflicted and failed are %v, want %v", got, want)
		}
		return nil
	})
	if out := e.kubectl(t, "get", "npool", "join"); !strings.Contains(out, "UPDATED") || !strings.Contains(out, "True") {
		t.Errorf("kubectl shows\n%s", out)
	}
	e.label(t, node, "pool-join-")
	e.carries(t, node, "label team=before", "no label example.com/x", "no annotation example.com/note", "no label node-role.kubernetes.io/fast", "no annotation "+poolRecord)
	if got := fmt.Sprint(e.node(t, node).Spec.Taints); got != `[{first  NoSchedule <nil>} {gpu old NoSchedule <nil>} {last  PreferNoSchedule <nil>}]` {
		t.Errorf("taints %s", got)
	}
	if n := e.poolWrites(t, node); n != 2 {
		t.Errorf("%d writes, want two", n)
	}
}

func moveWithoutGap(t *testing.T, e *env, node string) {
	for _, name := range []string{"one", "two"} {
		e.nodePool(t, name, fmt.Sprintf(`labels: {from: %s}, taints: [{key: reserved, value: %s, effect: NoSchedule}]`, name, name))
	}
	e.label(t, node, "pool-one=")
	e.carries(t, node, "taint reserved=one:NoSchedule")
	watch := must(e.Client().CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + node, ResourceVersion: e.node(t, node).ResourceVersion}))(t)
	defer watch.Stop()
	e.label(t, node, "pool-one-", "pool-two=")
	e.carries(t, node, "taint reserved=two:NoSchedule", "label from=two", "no taint reserved=one:NoSchedule")
	e.patchNode(t, node, `{"metadata":{"labels":{"done":""}}}`)
	for event := range watch.ResultChan() {
		data := string(must(json.Marshal(event.Object))(t))
		if !strings.Contains(data, `"reserved"`) {
			t.Errorf("without the taint: %s", data)
		}
		if strings.Contains(data, `"done"`) {
			break
		}
	}
	if n := e.poolWrites(t, node); n != 2 {
		t.Errorf("%d writes, want one to join and one to move", n)
	}
}

func recreated(t *testing.T, e *env, node string) {
	e.nodePool(t, "again", `labels: {again: "1"}, taints: [{key: prepare, effect: NoSchedule, propagation: OnJoin}]`)
	e.label(t, node, "pool-again=")
	e.carries(t, node, "label again=1", "taint prepare=:NoSchedule")
	e.kubectl(t, "taint", "node", node, "prepare-")
	n := e.node(t, node)
	n.UID, n.ResourceVersion = "", ""
	n.Labels = map[string]string{"pool-again": "", "kwok.x-k8s.io/node": "fake"} // its record is still there
	e.kubectl(t, "delete", "node", node)
	must(e.Client().CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}))(t)
	e.carries(t, node, "label again=1", "taint prepare=:NoSchedule")
}

func priorityFlip(t *testing.T, e *env, node string) {
	e.label(t, node, "pool-low=", "pool-high=", "tier=foreign")
	e.nodePool(t, "low", `priority: 1, labels: {tier: low, only-low: x}`)
	e.nodePool(t, "high", `priority: 2, labels: {tier: high}`)
	e.carries(t, node, "label tier=high", "label only-low=x")
	e.nodePool(t, "low", `priority: 3, labels: {tier: low, only-low: x}`)
	e.carries(t, node, "label tier=low")
	e.kubectl(t, "delete", "npool", "low")
	e.carries(t, node, "label tier=high", "no label only-low")
	e.kubectl(t, "delete", "npool", "high")
	e.carries(t, node, "label tier=foreign", "no annotation "+poolRecord)
}

func drift(t *testing.T, e *env, node string) {
	e.nodePool(t, "drift", `labels: {kept: "yes"}, taints: [{key: kept, effect: NoSchedule}]`)
	e.label(t, node, "pool-drift=")
	e.carries(t, node, "label kept=yes", "taint kept=:NoSchedule")
	counted := e.repairs(t)
	e.label(t, node, "kept=no", "theirs=x")
	e.carries(t, node, "label kept=yes", "label theirs=x")
	e.patchNode(t, node, `{"spec":{"taints":[{"key":"theirs","effect":"NoSchedule"}]}}`)
	e.carries(t, node, "taint kept=:NoSchedule", "taint theirs=:NoSchedule")
	repaired := e.repairs(t)
	if repaired["label"]-counted["label"] != 1 || repaired["taint"]-counted["taint"] != 1 {
		t.Errorf("repairs were %v and are %v, want one more of a label and a taint", counted, repaired)
	}
	if text := visit(e.orrery(), e.admin(t)).get(t, "/metrics", 200); regexp.MustCompile(`(?m)^orrery_nodepool_.*node-`).MatchString(text) {
		t.Error("the metrics of pools name nodes")
	}
	// Somebody who never gives up is not fought for ever.
	before := e.poolWrites(t, node)
	for range 20 {
		e.patchNode(t, node, `{"metadata":{"labels":{"kept":"no"}}}`)
		time.Sleep(200 * time.Millisecond)
	}
	if n := e.poolWrites(t, node) - before; n > 5 {
		t.Errorf("%d writes against somebody who writes again and again", n)
	}
	e.poolSays(t, "drift", "Conflicted", "True KeysLeftToOthers")
}

// repairs returns how many keys of nodes were set again, by kind.
func (e *env) repairs(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^orrery_nodepool_drift_repairs_total\{kind="(\w+)"\} (\d+)$`).FindAllStringSubmatch(visit(e.orrery(), e.admin(t)).get(t, "/metrics", 200), -1) {
		out[m[1]] = must(strconv.Atoi(m[2]))(t)
	}
	if len(out) != 3 {
		t.Fatalf("the metrics count repairs of %v only", out)
	}
	return out
}

func onJoin(t *testing.T, e *env, node string) {
	e.nodePool(t, "onjoin", `labels: {joined: "yes"}, taints: [{key: prepare, effect: NoSchedule, propagation: OnJoin}]`)
	e.label(t, node, "pool-onjoin=")
	e.carries(t, node, "taint prepare=:NoSchedule", "label joined=yes")
	e.kubectl(t, "taint", "node", node, "prepare-")
	e.label(t, node, "pool-onjoin-")
	e.carries(t, node, "no label joined")
	e.label(t, node, "pool-onjoin=")
	e.carries(t, node, "label joined=yes", "no taint prepare")
	e.label(t, node, "joined-") // and a repair does not bring it back
	e.carries(t, node, "label joined=yes", "no taint prepare")
}

func existingKeys(t *testing.T, e *env, node string) {
	e.label(t, node, "pool-existing=", "owner=theirs")
	e.nodePool(t, "existing", `existingKeys: Skip, labels: {owner: ours, free: ours}`)
	e.carries(t, node, "label owner=theirs", "label free=ours")
	e.poolSays(t, "existing", "Conflicted", "True KeysLeftToOthers")
	if p := e.pool(t, "existing").Status.ProblemNodes; len(p) != 1 || p[0].Name != node || p[0].Reason != "Conflict" {
		t.Errorf("problem nodes %+v", p)
	}
	e.nodePool(t, "existing", `existingKeys: Adopt, labels: {owner: ours, free: ours}`)
	e.carries(t, node, "label owner=ours")
	e.poolSays(t, "existing", "Conflicted", "False NoConflict")
	e.nodePool(t, "existing", `existingKeys: Skip, labels: {owner: ours, free: ours}`)
	e.carries(t, node, "label owner=theirs", "label free=ours")
	e.nodePool(t, "existing", `existingKeys: Adopt, labels: {owner: ours, free: ours}`)
	e.carries(t, node, "label owner=ours")
	e.kubectl(t, "delete", "npool", "existing")
	e.carries(t, node, "label owner=theirs", "no label free", "no annotation "+poolRecord)
}

func audited(t *testing.T, e *env, node string) {
	e.label(t, node, "pool-audit=", "owner=theirs")
	e.nodePool(t, "audit", `mode: Audit, labels: {owner: ours}, taints: [{key: audit, effect: NoExecute}]`)
	e.poolSays(t, "audit", "NodesUpdated", "False Audit")
	p := e.pool(t, "audit").Status.Plan
	if len(p) != 1 || p[0].Name != node || strings.Join(p[0].Changes, "; ") != `change label owner from "theirs" to "ours"; add taint audit:NoExecute with value ""` {
		t.Errorf("plan %+v", p)
	}
	if n := e.poolWrites(t, node); n != 0 {
		t.Errorf("%d writes", n)
	}
}

func paused(t *testing.T, e *env, node string) {
	e.nodePool(t, "paused", `labels: {v: "1"}`)
	e.label(t, node, "pool-paused=")
	e.carries(t, node, "label v=1")
	e.nodePool(t, "paused", `paused: true, labels: {v: "2"}`)
	e.poolSays(t, "paused", "NodesUpdated", "False Paused")
	e.label(t, node, "v=theirs")
	time.Sleep(time.Second)
	if err := carries(e.node(t, node), "label v=theirs"); err != nil {
		t.Error(err)
	}
	if n := e.poolWrites(t, node); n != 1 {
		t.Errorf("%d writes, want the first", n)
	}
	e.label(t, node, "v=1")
	e.kubectl(t, "delete", "npool", "paused")
	e.carries(t, node, "no label v", "no annotation "+poolRecord)
}

func retained(t *testing.T, e *env, node string) {
	e.nodePool(t, "retain", `deletionPolicy: Retain, labels: {stays: "yes"}, taints: [{key: stays, effect: NoSchedule}]`)
	e.label(t, node, "pool-retain=")
	e.carries(t, node, "label stays=yes", "taint stays=:NoSchedule")
	e.kubectl(t, "delete", "npool", "retain")
	e.carries(t, node, "label stays=yes", "taint stays=:NoSchedule", "no annotation "+poolRecord)
}

func deletedAfterRelabel(t *testing.T, e *env, node string) {
	e.nodePool(t, "relabel", `labels: {x-relabel: "yes"}`)
	e.label(t, node, "pool-relabel=")
	e.carries(t, node, "label x-relabel=yes")
	stopped := e.orrery()
	if err := stopped.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.label(t, node, "pool-relabel-")
	e.kubectl(t, "delete", "npool", "relabel", "--wait=false")
	e.manage(t, cluster.Orrery, "--controllers=*,nodepool-controller")
	e.gone(t, "npool", "default", "relabel")
	if err := carries(e.node(t, node), "no label x-relabel", "no annotation "+poolRecord); err != nil {
		t.Error(err)
	}
}

func forcedFinalizer(t *testing.T, e *env, node string) {
	e.nodePool(t, "forced", `labels: {x-forced: "yes"}`)
	e.label(t, node, "pool-forced=")
	e.carries(t, node, "label x-forced=yes")
	if err := e.orrery().Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.kubectl(t, "patch", "npool", "forced", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	e.kubectl(t, "delete", "npool", "forced")
	if err := carries(e.node(t, node), "label x-forced=yes"); err != nil {
		t.Fatal(err)
	}
	e.manage(t, cluster.Orrery, "--controllers=*,nodepool-controller")
	e.carries(t, node, "no label x-forced", "no annotation "+poolRecord)
}

func malformed(t *testing.T, e *env, node string) {
	e.nodePool(t, "malformed", `labels: {x-malformed: "1"}`)
	e.label(t, node, "pool-malformed=")
	e.carries(t, node, "label x-malformed=1")
	good := e.node(t, node).Annotations[poolRecord]
	e.kubectl(t, "annotate", "--overwrite", "node", node, poolRecord+"="+good[:len(good)-2])
	e.nodePool(t, "malformed", `labels: {other: "1"}`)
	e.poolSays(t, "malformed", "Degraded", "True MalformedRecord")
	e.kubectl(t, "delete", "npool", "malformed", "--wait=false")
	e.poolSays(t, "malformed", "Degraded", "True CleanupBlocked")
	if err := carries(e.node(t, node), "label x-malformed=1", "no label other"); err != nil {
		t.Error(err)
	}
	e.kubectl(t, "annotate", "--overwrite", "node", node, poolRecord+"="+good)
	e.gone(t, "npool", "default", "malformed")
	if err := carries(e.node(t, node), "no label x-malformed", "no annotation "+poolRecord); err != nil {
		t.Error(err)
	}
}

func lastLeaves(t *testing.T, e *env, node string) {
	e.nodePool(t, "last", `labels: {x-last: "1"}`)
	e.label(t, node, "pool-last=")
	e.carries(t, node, "label x-last=1")
	e.label(t, node, "pool-last-")
	eventually(t, "the pool is empty", func() error {
		s := e.pool(t, "last").Status
		if s.NodeCount == nil || s.UpdatedNodeCount == nil || s.FailedNodeCount == nil {
			return errors.New("a count is missing")
		}
		return errors.Join(differ("nodes", *s.NodeCount, 0), differ("updated", *s.UpdatedNodeCount, 0))
	})
	e.poolSays(t, "last", "Ready", "True AsAsked")
}

func runtimeClass(t *testing.T, e *env, node string) {
	e.nodePool(t, "class", `taints: [{key: class, value: "yes", effect: NoSchedule}], runtimeClass: {handler: fake}`)
	e.label(t, node, "pool-class=")
	e.carries(t, node, "taint class=yes:NoSchedule")
	e.poolSays(t, "class", "RuntimeClassReady", "True Created")
	ns := e.namespace(t, "class")
	e.apply(t, fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: %s}\nspec: {runtimeClassName: node-pool-class, containers: [{name: c, image: x}]}\n", ns))
	eventually(t, "the pod runs on the pool", func() error {
		pod := must(e.Client().CoreV1().Pods(ns).Get(t.Context(), "p", metav1.GetOptions{}))(t)
		return errors.Join(differ("node", pod.Spec.NodeName, node), e.phase(t, ns, "p", "Running"))
	})
	e.kubectl(t, "delete", "npool", "class")
	e.gone(t, "runtimeclass", "default", "node-pool-class")
}

func restartWritesNothing(t *testing.T, e *env) {
	e.kubectl(t, "delete", "npool", "drift") // somebody is at odds with it
	time.Sleep(2 * time.Second)
	if err := e.orrery().Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	before := e.poolVersions(t)
	p := e.manage(t, cluster.Orrery, "--controllers=*,nodepool-controller")
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
	if after := e.poolVersions(t); after != before {
		t.Errorf("versions of pools were\n%s\nand are\n%s", before, after)
	}
}

// poolVersions returns the resourceVersions of pools and RuntimeClasses.
func (e *env) poolVersions(t *testing.T) string {
	t.Helper()
	return e.kubectl(t, "get", "npool,runtimeclass", "-o", `jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`)
}
