package scenarios

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd/api"

	authenticationv1 "k8s.io/api/authentication/v1"

	"orrery/hack/localcluster/cluster"
)

// certificates makes certificates as users do, and returns their folder and the commands that install them.
func certificates(t *testing.T) (dir, install string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "certs")
	out, err := exec.CommandContext(t.Context(), orreryBin, "certificates", "--dir", dir).CombinedOutput()
	_, install, ok := strings.Cut(string(out), "To install them:\n")
	if err != nil || !ok {
		t.Fatalf("orrery certificates: %v\n%s", err, out)
	}
	return dir, install
}

// registerWebhook applies the Service and the webhook configurations that are shipped, and installs the certificates as
// their maker says. The Service leads to a port of this machine, as there is no network of pods here.
func (e *env) registerWebhook(t *testing.T, address, install string) {
	t.Helper()
	_, port, _ := net.SplitHostPort(address)
	text := readManifest(t, "nodepool", "webhook.yaml")
	for _, change := range [][2]string{
		{"  selector: {app.kubernetes.io/name: nodepool-manager}\n  ports:\n  - {name: webhook, port: 443, targetPort: 9443}\n", "  type: ExternalName\n  externalName: localhost\n"},
		{"name: nodepool-webhook, path:", "name: nodepool-webhook, port: " + port + ", path:"},
	} {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("the manifest of the webhook has no %q:\n%s", change[0], text)
		}
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	e.apply(t, text)
	sh := exec.CommandContext(t.Context(), "sh", "-ec", install)
	sh.Env = append(os.Environ(), "KUBECONFIG="+e.Kubeconfig(), "PATH="+filepath.Dir(must(e.Kubectl(t.Context()))(t))+":"+os.Getenv("PATH"))
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("install the certificates: %v\n%s", err, out)
	}
	eventually(t, "the webhook is called", func() error {
		out, err := e.tryKubectl(t, poolText("probe", `{}`), "create", "--dry-run=server", "-o", "jsonpath={.spec.nodeSelector.matchLabels}", "-f", "-")
		return errors.Join(err, differ("selector", out, `{"node-role.kubernetes.io/probe":""}`))
	})
}

func poolText(name, spec string) string {
	return fmt.Sprintf("apiVersion: nodes.orrery.dev/v1alpha1\nkind: NodePool\nmetadata: {name: %s}\nspec: %s\n", name, spec)
}

// TestTheWebhookOfTheDaemon has it served by the daemon.
func TestTheWebhookOfTheDaemon(t *testing.T) {
	t.Parallel()
	dir, install := certificates(t)
	address := free(t)
	_, port, _ := net.SplitHostPort(address)
	e := withPools(t, 2, "--webhook-cert-dir="+dir, "--webhook-bind-address=127.0.0.1", "--webhook-port="+port)
	e.registerWebhook(t, address, install)
	admission(t, e)

	// Without it the CRD still refuses mistakes, and what is right is let in; the controller resolves the rest.
	if err := e.orrery().Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.tryKubectl(t, poolText("late", `{labels: {kubernetes.io/x: "1"}}`), "apply", "-f", "-"); err == nil || !strings.Contains(err.Error(), "the cluster's own") {
		t.Errorf("a mistake is let in without the webhook: %v", err)
	}
	e.apply(t, poolText("late", `{nodeSelector: {matchLabels: {pool-a: ""}}, labels: {team: late}}`))
	e.manage(t, cluster.Orrery, "--controllers=*,nodepool-controller")
	e.poolSays(t, "late", "Conflicted", "True KeysLeftToOthers")
	e.carries(t, "node-1", "label team=a")
}

// TestTheStandAloneManager runs the controller and its webhook by themselves, under the account and the roles that are
// shipped.
func TestTheStandAloneManager(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "nodepool-manager")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/nodepool-manager")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	dir, install := certificates(t)
	e := start(t, cluster.Options{Nodes: 2, Untaint: true, APIServerArgs: []string{servicesLead}})
	e.kubectl(t, "apply", "-f", manifest("nodepool", "rbac.yaml"), "-f", manifest("nodepool", "manager.yaml"))
	account := e.asAccount(t, poolController)
	args := []string{"--kubeconfig=" + account, "--leader-elect-namespace=kube-system", "--webhook-cert-dir=" + dir}
	first := e.operate(t, program, args...)
	e.kubectl(t, "apply", "-f", manifest("crds"))
	e.kubectl(t, "wait", "--for=condition=Established", "crd/nodepools.nodes.orrery.dev")
	e.registerWebhook(t, first.webhook, install)
	admission(t, e)
	e.poolSays(t, "a", "Ready", "True AsAsked")
	e.carries(t, "node-1", "label team=a")

	// Another takes over, and writes nothing again.
	second := e.operate(t, program, args...)
	before := e.poolVersions(t)
	first.stop(t)
	e.label(t, "node-2", "pool-a=")
	e.carries(t, "node-2", "label team=a")
	e.label(t, "node-2", "pool-a-")
	e.carries(t, "node-2", "no label team", "no annotation "+poolRecord)
	eventually(t, "pools are as before", func() error { return sameButStatus(before, e.poolVersions(t)) })
	e.kubectl(t, "delete", "npool", "--all")
	e.carries(t, "node-1", "no label team", "no annotation "+poolRecord)
	if denied := strings.Contains(first.log.String()+second.log.String(), "forbidden"); denied {
		t.Error("something was denied under the shipped roles")
	}
	second.stop(t)
}

// sameButStatus compares names of objects only, as a status follows the nodes.
func sameButStatus(a, b string) error {
	names := func(s string) (out []string) {
		for line := range strings.Lines(s) {
			out = append(out, strings.Join(strings.Fields(line)[:2], " "))
		}
		return out
	}
	return differ("objects", strings.Join(names(b), ", "), strings.Join(names(a), ", "))
}

// asAccount returns a kubeconfig with a token of a service account in kube-system.
func (e *env) asAccount(t *testing.T, account string) string {
	t.Helper()
	seconds := int64(3600)
	token := must(e.Client().CoreV1().ServiceAccounts("kube-system").CreateToken(t.Context(), account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{}))(t)
	return kubeconfig(t, e.ControllerManagerKubeconfig(), func(_ *api.Cluster, u *api.AuthInfo) {
		*u = api.AuthInfo{Token: token.Status.Token}
	})
}

// admission makes real admission calls. It leaves the pool a behind, with node-1 in it.
func admission(t *testing.T, e *env) {
	e.label(t, "node-1", "pool-a=", "pool-b=")
	text := poolText("a", `{nodeSelector: {matchLabels: {pool-a: ""}}, labels: {team: a}, runtimeClass: {handler: x}}`)
	e.apply(t, text)
	// Defaults are what the object says from then on, and applying it again changes nothing.
	if got := e.kubectl(t, "get", "npool", "a", "-o", "jsonpath={.spec.runtimeClass.name} {.spec.mode} {.spec.existingKeys} {.spec.rollout.noExecuteMaxUpdating}"); got != "node-pool-a Enforce Adopt 1" {
		t.Errorf("defaults are %q", got)
	}
	eventually(t, "finalizer", func() error { return differ("finalizers", len(e.pool(t, "a").Metadata.Finalizers), 1) })
	e.apply(t, text)
	if g := e.pool(t, "a").Metadata.Generation; g != 1 {
		t.Errorf("applied again, the pool is of generation %d", g)
	}
	e.apply(t, "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: foreign}\nhandler: x\n")
	for _, c := range []struct{ spec, want string }{
		{`{labels: {topology.kubernetes.io/zone: x}}`, `keys of kubernetes.io and k8s.io are the cluster's own`},
		{`{runtimeClass: {handler: x, name: foreign}}`, `spec.runtimeClass.name: Invalid value: "foreign": is in use by a RuntimeClass that is not this pool's`},
		{`{runtimeClass: {handler: x, name: node-pool-a}}`, `spec.runtimeClass.name: Invalid value: "node-pool-a": is the RuntimeClass of NodePool a`},
		{`{nodeSelector: {matchLabels: {pool-b: ""}}, labels: {team: b}}`, `spec.labels[team]: Invalid value: "b": NodePool a sets it to "a" on nodes of both, with the same priority 0`},
		{`{nodeSelector: {matchExpressions: [{key: a, operator: Like}]}}`, `every operator must be In or NotIn`},
	} {
		if _, err := e.tryKubectl(t, poolText("b", c.spec), "apply", "-f", "-"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s is not refused with %q: %v", c.spec, c.want, err)
		}
	}
	for _, c := range []struct{ spec, want string }{
		{`{nodeSelector: {matchLabels: {kubernetes.io/os: linux}}}`, `matches all 2 nodes`},
		{`{nodeSelector: {matchLabels: {nobody: ""}}}`, `matches no node now`},
		{`{nodeSelector: {matchLabels: {pool-b: ""}}, taints: [{key: x, effect: NoExecute}]}`, `spec.taints[0]: x:NoExecute drives the pods off`},
	} {
		_, err := e.tryKubectl(t, poolText("b", c.spec), "create", "--dry-run=server", "--warnings-as-errors", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: no warning of %q: %v", c.spec, c.want, err)
		}
	}
	// A pool that is going is not held up by what it clashes with by now.
	e.apply(t, poolText("going", `{priority: 1, nodeSelector: {matchLabels: {pool-b: ""}}, labels: {team: b}}`))
	e.kubectl(t, "patch", "npool", "going", "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	e.kubectl(t, "delete", "npool", "going", "--wait=false")
	e.kubectl(t, "patch", "npool", "going", "--type=merge", "-p", `{"spec":{"priority":0}}`)
	e.kubectl(t, "patch", "npool", "going", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	e.gone(t, "npool", "default", "going")
}
