package scenarios

import (
	"fmt"
	"strings"
	"testing"

	"orrery/hack/localcluster/cluster"
)

// TestTheSchemaRefusesMistakes offers pools to an API server that has the CRD and nothing else of ours: no webhook is
// needed to refuse these.
func TestTheSchemaRefusesMistakes(t *testing.T) {
	t.Parallel()
	e := start(t, cluster.Options{})
	e.kubectl(t, "apply", "-f", manifest("crds"))
	e.kubectl(t, "wait", "--for=condition=Established", "crd/nodepools.nodes.orrery.dev")
	pool := func(name, spec string) string {
		return fmt.Sprintf("apiVersion: nodes.orrery.dev/v1alpha1\nkind: NodePool\nmetadata: {name: %s}\nspec: %s\n", name, spec)
	}
	for _, good := range [][2]string{
		{"bare", `{}`},
		{"full", `{priority: -5, labels: {team: a, example.com/x: "1", node-restriction.kubernetes.io/z: a, eu.node-restriction.kubernetes.io/z: ""}, annotations: {a: ""},
		  taints: [{key: d, effect: NoSchedule}, {key: d, effect: NoExecute}], nodeRole: x, runtimeClass: {handler: runc, overhead: {cpu: 100m}},
		  rollout: {maxUpdating: 10%, noExecuteMaxUpdating: 2, intervalSeconds: 5}, nodeSelector: {matchLabels: {a: b}}}`},
		{"near", `{labels: {notkubernetes.io/a: b, kubernetes.io.example.com/a: b, orrery.dev.example.com/a: b}}`},
	} {
		if _, err := e.tryKubectl(t, pool(good[0], good[1]), "create", "--dry-run=server", "-f", "-"); err != nil {
			t.Errorf("%s is refused: %v", good[1], err)
		}
	}
	for _, bad := range [][3]string{
		{"a.b", `{}`, "no dot"},
		{strings.Repeat("a", 64), `{}`, "at most 63"},
		{"x", `{nodeRole: x}`, "default spec.nodeSelector selects by"},
		{"x", `{nodeSelector: {}}`, "would match every node"},
		{"x", `{nodeSelector: {matchLabels: {}}}`, "would match every node"},
		{"x", `{nodeSelector: {matchLabels: {a: b}}, labels: {a: b}}`, "a key that the pool writes"},
		{"x", `{nodeSelector: {matchExpressions: [{key: a, operator: Exists}]}, labels: {a: b}}`, "a key that the pool writes"},
		{"x", `{nodeSelector: {matchLabels: {node-role.kubernetes.io/r: ""}}, nodeRole: r}`, "the label of nodeRole"},
		{"x", `{nodeSelector: {matchExpressions: [{key: a, operator: Exists}]}, runtimeClass: {handler: x}}`, "use matchLabels"},
		{"x", `{nodeSelector: {matchExpressions: [{key: a, operator: Like}]}}`, "every operator must be"},
		{"x", `{nodeSelector: {matchExpressions: [{key: a, operator: In}]}}`, "every operator must be"},
		{"x", `{nodeSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}`, "every operator must be"},
		{"x", `{labels: {kubernetes.io/a: b}}`, "the cluster's own"},
		{"x", `{labels: {sub.k8s.io/a: b}}`, "the cluster's own"},
		{"x", `{labels: {node-role.kubernetes.io/a: ""}}`, "use nodeRole"},
		{"x", `{annotations: {kubectl.kubernetes.io/a: b}}`, "the cluster's own"},
		{"x", `{annotations: {nodes.orrery.dev/pools: b}}`, "this operator's own"},
		{"x", `{labels: {a/b/c: b}}`, "must be a label key"},
		{"x", `{labels: {a: "b b"}}`, "should match"},
		{"x", `{taints: [{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}]}`, "the cluster's own"},
		{"x", `{taints: [{key: node.kubernetes.io/unreachable, effect: NoExecute}]}`, "the cluster's own"},
		{"x", `{taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule, value: b}]}`, "Duplicate value"},
		{"x", `{taints: [{key: a, effect: Never}]}`, "Unsupported value"},
		{"x", `{taints: [{key: a, effect: NoSchedule, propagation: Sometimes}]}`, "Unsupported value"},
		{"x", `{nodeRole: control-plane}`, "the cluster's own"},
		{"x", `{rollout: {maxUpdating: 0}}`, "at least 1"},
		{"x", `{rollout: {maxUpdating: "0%"}}`, "1% to 100%"},
		{"x", `{rollout: {maxUpdating: "5"}}`, "1% to 100%"},
		{"x", `{rollout: {maxUpdating: 3000000000}}`, "at least 1"},
		{"x", `{rollout: {noExecuteMaxUpdating: 3000000000}}`, "int32"},
		{"x", `{priority: 3000000000}`, "int32"},
		{"x", `{runtimeClass: {handler: x, overhead: {cpu: 1e1.5}}}`, "must be a quantity"},
		{"x", `{runtimeClass: {handler: x, overhead: {cpu: "-1"}}}`, "not negative"},
		{"x", `{rollout: {noExecuteMaxUpdating: 0}}`, "greater than or equal to 1"},
		{"x", `{runtimeClass: {}}`, "handler: Required"},
		{"x", `{mode: Half}`, "Unsupported value"},
		{"x", `{existingKeys: Half}`, "Unsupported value"},
		{"x", `{deletionPolicy: Half}`, "Unsupported value"},
		{"x", `{labels: {` + many(65) + `}}`, "at most 64"},
		{"x", `{unknownField: 1}`, "unknown field"},
	} {
		_, err := e.tryKubectl(t, pool(bad[0], bad[1]), "create", "--dry-run=server", "--validate=strict", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), bad[2]) {
			t.Errorf("%s is not refused with %q: %v", bad[1], bad[2], err)
		}
	}
	e.apply(t, pool("fixed", `{runtimeClass: {name: one, handler: runc}}`))
	for _, spec := range []string{`{runtimeClass: {name: two, handler: runc}}`, `{runtimeClass: {name: one, handler: other}}`, `{runtimeClass: {handler: runc}}`} {
		if _, err := e.tryKubectl(t, pool("fixed", spec), "apply", "-f", "-"); err == nil || !strings.Contains(err.Error(), "immutable") {
			t.Errorf("a change to %s is not refused: %v", spec, err)
		}
	}
	e.apply(t, pool("fixed", `{}`))
	e.apply(t, pool("fixed", `{runtimeClass: {handler: other}}`))
}

// many returns n labels.
func many(n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("l%d: x", i)
	}
	return strings.Join(out, ", ")
}
