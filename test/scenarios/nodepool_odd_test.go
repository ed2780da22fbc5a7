package scenarios

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"orrery/hack/localcluster/cluster"
)

// TestNodePoolsRehearsedRefusedAndForged has a dry run say what it would do to nodes, an admission policy refuse that for a
// while, and somebody forge a record.
func TestNodePoolsRehearsedRefusedAndForged(t *testing.T) {
	t.Parallel()
	e := start(t, cluster.Options{Nodes: 2, Untaint: true})
	e.kubectl(t, "apply", "-f", manifest("nodepool", "rbac.yaml"), "-f", manifest("crds"))
	e.kubectl(t, "wait", "--for=condition=Established", "crd/nodepools.nodes.orrery.dev")
	e.nodePool(t, "odd", `labels: {team: odd}`)
	e.label(t, "node-1", "pool-odd=")

	dry := e.manage(t, cluster.Orrery, "--dry-run", "--controllers=nodepool-controller")
	eventually(t, "it says what it would do to the node", func() error {
		r, err := e.rehearsed(t, dry)
		for _, w := range r.Writes {
			if w.Verb == "patch" && w.Resource == "nodes" && w.Object == "node-1" {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("it would write %+v", r.Writes))
	})
	if err := dry.Stop(timeout(t, patience)); err != nil {
		t.Fatal(err)
	}
	if p := e.pool(t, "odd"); len(p.Metadata.Finalizers) > 0 || len(p.Status.Conditions) > 0 {
		t.Errorf("the dry run stored %+v", p)
	}
	if err := carries(e.node(t, "node-1"), "no label team", "no annotation "+poolRecord); err != nil {
		t.Error(err)
	}

	e.expect(`bring node node-1 to what its pools ask for.*no teams here`)
	lift := e.enforce(t, policy{ // with the answer that the schema gives as well
		name: "no-teams", resource: "nodes", operation: "UPDATE", allow: "!has(object.metadata.labels.team)", message: "no teams here",
	}, "label", "node", "node-2", "team=probe")
	e.manage(t, cluster.Orrery, "--controllers=nodepool-controller")
	e.poolSays(t, "odd", "Degraded", "True WriteFailed")
	if p := e.pool(t, "odd").Status.ProblemNodes; len(p) != 1 || !strings.Contains(p[0].Message, "no teams here") {
		t.Errorf("problem nodes %+v", p)
	}
	lift()
	e.carries(t, "node-1", "label team=odd") // although neither the node nor the pool has changed
	e.poolSays(t, "odd", "Ready", "True AsAsked")

	good := e.node(t, "node-1").Annotations[poolRecord]
	before := asGiven(e.node(t, "node-2"))
	forged := `{"v":1,"node":"x","pools":[{"name":"ghost","uid":"ghost","labels":{"topology.kubernetes.io/zone":{"set":"` +
		e.node(t, "node-1").Labels["topology.kubernetes.io/zone"] + `","was":"elsewhere"}}}]}`
	e.kubectl(t, "annotate", "--overwrite", "node", "node-1", poolRecord+"="+forged)
	e.poolSays(t, "odd", "Degraded", "True MalformedRecord")
	e.carries(t, "node-1", "label team=odd", "no label topology.kubernetes.io/zone=elsewhere")
	e.kubectl(t, "annotate", "--overwrite", "node", "node-1", poolRecord+"="+good)
	e.poolSays(t, "odd", "Degraded", "False NoProblem")
	e.kubectl(t, "delete", "npool", "odd")
	e.carries(t, "node-1", "no label team", "no annotation "+poolRecord)
	if got := asGiven(e.node(t, "node-2")); got != before {
		t.Errorf("the other node is %s and was %s", got, before)
	}
}
