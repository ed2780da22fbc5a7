package scenarios

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
)

// existing is the kubeconfig of an existing cluster. If it is set, the scenarios that use only the API run against that
// cluster, whatever its controller manager, and the others are skipped.
var existing = os.Getenv("SCENARIOS_KUBECONFIG")

// own skips a test that cannot run on an existing cluster.
func own(t *testing.T, why string) {
	t.Helper()
	if existing != "" {
		t.Skipf("not on an existing cluster: it %s", why)
	}
}

// anywhere returns the existing cluster if there is one, or a new one with n nodes and the daemon in it. The caller must use
// nothing but the API: no processes, logs or audit.
func anywhere(t *testing.T, n int) *env {
	t.Helper()
	if existing == "" {
		return withOrrery(t, n)
	}
	path, err := filepath.Abs(existing)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Attach(path, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	e := &env{Cluster: c, dir: t.TempDir()}
	t.Logf("against %s, where %s leads", e.RESTConfig().Host, e.holder(t))
	return e
}

// forget deletes a namespace of an existing cluster at the end of the test.
func (e *env) forget(t *testing.T, name string) {
	if existing == "" {
		return
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context()) // which has ended
		eventually(t, "namespace "+name+" gone", func() error {
			err := e.Client().CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return cmp.Or(err, errors.New("it is still there"))
		})
	})
}

// addressFamilies returns the address families of a Service.
func (e *env) addressFamilies(t *testing.T, namespace, name string) (ipv4, ipv6 bool) {
	t.Helper()
	for _, family := range must(e.Client().CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{}))(t).Spec.IPFamilies {
		ipv4, ipv6 = ipv4 || family == "IPv4", ipv6 || family == "IPv6"
	}
	return ipv4, ipv6
}

// count is n where there is something to count.
func count(n int, is bool) int {
	if is {
		return n
	}
	return 0
}

// takesManifests checks that an API server accepts the manifests.
func (e *env) takesManifests(t *testing.T) {
	t.Helper()
	const dir = "../../manifests/"
	applied := e.kubectl(t, "apply", "--dry-run=server", "-k", dir)
	for _, file := range []string{"static-pod/kube-controller-manager.yaml", "nodepool/manager.yaml", "nodepool/webhook.yaml"} {
		applied += e.kubectl(t, "create", "--dry-run=server", "-f", dir+file)
	}
	for _, want := range []string{"nodepools.nodes.orrery.dev created", "orrery:nodepool-controller created", "pod/kube-controller-manager created", "deployment.apps/nodepool-manager created"} {
		if !strings.Contains(applied, want) {
			t.Errorf("the API server does not say %q:\n%s", want, applied)
		}
	}
	if built := e.kubectl(t, "kustomize", dir+"monitoring"); strings.Count(built, "\nkind: ") != 4 {
		t.Errorf("kustomize makes of manifests/monitoring\n%s", built)
	}
}

// TestAnExistingCluster runs some scenarios as `make scenarios-against` does: in a process of their own, against a cluster
// of which they have only the kubeconfig.
func TestAnExistingCluster(t *testing.T) {
	t.Parallel()
	own(t, "is about a second process")
	e := withOrrery(t, 3)
	e.takesManifests(t)
	e.expect("unexpected items still remain in namespace: everyday-") // pods that take longer to go than they were given
	cmd := exec.CommandContext(timeout(t, 2*patience), os.Args[0], "-test.v", "-test.run=^(TestEveryday|TestStandbyIsHealthy)$")
	cmd.Env = append(os.Environ(), "SCENARIOS_KUBECONFIG="+e.Kubeconfig(), "ORRERY_BIN="+orreryBin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"--- PASS: TestEveryday ", "--- SKIP: TestStandbyIsHealthy ", "not on an existing cluster: it starts", e.Server(), e.holder(t)} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("the other process does not say %q:\n%s", want, out)
		}
	}
	for _, ns := range must(e.Client().CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}))(t).Items {
		if ns.Name != "default" && !strings.HasPrefix(ns.Name, "kube-") {
			t.Errorf("left behind: namespace %s", ns.Name)
		}
	}
}
