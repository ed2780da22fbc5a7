package scenarios

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/hack/localcluster/cluster"
)

const (
	poolController = "nodepool-controller"
	poolRecord     = "nodes.orrery.dev/pools"
)

// servicesLead lets the API server call what a Service of type ExternalName leads to. It does not where it calls the
// endpoints behind Services itself.
const servicesLead = "--enable-aggregator-routing=false"

// manifest is the path of a file that is shipped.
func manifest(parts ...string) string {
	return filepath.Join(append([]string{"..", "..", "manifests"}, parts...)...)
}

// withPools starts a cluster with n nodes and a daemon that runs the NodePool controller, with what is shipped for it.
func withPools(t *testing.T, n int, args ...string) *env {
	t.Helper()
	e := start(t, cluster.Options{Nodes: n, Untaint: true, APIServerArgs: []string{servicesLead}})
	e.kubectl(t, "apply", "-f", manifest("nodepool", "rbac.yaml"), "-f", manifest("crds"))
	e.kubectl(t, "wait", "--for=condition=Established", "crd/nodepools.nodes.orrery.dev")
	e.manage(t, cluster.Orrery, append([]string{"--controllers=*,nodepool-controller"}, args...)...)
	if err := e.WaitUsable(timeout(t, patience)); err != nil {
		t.Fatal(err)
	}
	return e
}

// nodePool applies a pool that selects nodes by the label pool-<name>; spec is the rest, in YAML's flow form.
func (e *env) nodePool(t *testing.T, name, spec string) {
	t.Helper()
	e.apply(t, fmt.Sprintf("apiVersion: nodes.orrery.dev/v1alpha1\nkind: NodePool\nmetadata: {name: %s}\nspec: {nodeSelector: {matchLabels: {pool-%s: \"\"}}, %s}\n", name, name, spec))
}

// poolObject is what the tests read of a NodePool.
type poolObject struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Status   struct {
		ObservedGeneration                                                                int64
		NodeCount, ReadyNodeCount, UpdatedNodeCount, ConflictedNodeCount, FailedNodeCount *int
		RuntimeClassName                                                                  string
		ProblemNodes                                                                      []struct{ Name, Reason, Message string }
		Plan                                                                              []struct {
			Name    string
			Changes []string
		}
		Conditions []metav1.Condition
	} `json:"status"`
}

func (e *env) pool(t *testing.T, name string) (p poolObject) {
	t.Helper()
	if err := json.Unmarshal([]byte(e.kubectl(t, "get", "npool", name, "-o", "json")), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// poolSays waits until a pool's condition has a status and reason, for its present generation.
func (e *env) poolSays(t *testing.T, name, kind, want string) {
	t.Helper()
	eventually(t, fmt.Sprintf("condition %s of NodePool %s", kind, name), func() error {
		p := e.pool(t, name)
		for _, c := range p.Status.Conditions {
			if c.Type == kind {
				return errors.Join(differ("condition", string(c.Status)+" "+c.Reason, want), differ("generation", c.ObservedGeneration, p.Metadata.Generation))
			}
		}
		return errors.New("it is not there")
	})
}

func (e *env) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	return must(e.Client().CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{}))(t)
}

// label sets labels of a node: "k=v", or "k-" to remove one.
func (e *env) label(t *testing.T, node string, labels ...string) {
	t.Helper()
	e.kubectl(t, append([]string{"label", "--overwrite", "node", node}, labels...)...)
}

// carries says what a node lacks of what it should have: "label k=v", "annotation k", "taint k=v:Effect", "no ..." of each.
func carries(n *corev1.Node, what ...string) error {
	var has []string
	for k, v := range n.Labels {
		has = append(has, "label "+k+"="+v, "label "+k)
	}
	for k, v := range n.Annotations {
		has = append(has, "annotation "+k+"="+v, "annotation "+k)
	}
	for _, t := range n.Spec.Taints {
		has = append(has, fmt.Sprintf("taint %s=%s:%s", t.Key, t.Value, t.Effect), "taint "+t.Key)
	}
	for _, w := range what {
		bare, no := strings.CutPrefix(w, "no ")
		if slices.Contains(has, bare) == no {
			return fmt.Errorf("node %s: want %s; it has labels %v, taints %v, record %s", n.Name, w, n.Labels, n.Spec.Taints, n.Annotations[poolRecord])
		}
	}
	return nil
}

func (e *env) carries(t *testing.T, node string, what ...string) {
	t.Helper()
	eventually(t, "node "+node, func() error { return carries(e.node(t, node), what...) })
}

// asGiven is what of a node its pools could have changed.
func asGiven(n *corev1.Node) string { return fmt.Sprint(n.Labels, n.Annotations, n.Spec.Taints) }

// poolWrites counts the controller's successful writes of a node, or of all if the name is empty.
func (e *env) poolWrites(t *testing.T, node string) int {
	t.Helper()
	return len(e.audit(t, func(a auditEvent) bool {
		return a.account() == poolController && a.kind() == "nodes" && a.writes() && a.Response.Code == 200 && (node == "" || a.Object.Name == node)
	}))
}

func (e *env) patchNode(t *testing.T, node, patch string) {
	t.Helper()
	must(e.Client().CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
}

// readManifest returns the text of a file that is shipped.
func readManifest(t *testing.T, parts ...string) string {
	t.Helper()
	return string(must(os.ReadFile(manifest(parts...)))(t))
}
