package scenarios

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
	"orrery/test/example"
)

// operator is a process that runs the program in the documentation.
type operator struct {
	cmd     *exec.Cmd
	log     *lockedBuffer
	ended   chan error
	health  string // URL
	webhook string // host:port
}

// lockedBuffer is written by a process while the test reads it.
type lockedBuffer struct {
	mu sync.Mutex // guards buf
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// free returns an address of this machine that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// operate starts the program and waits until it is ready.
func (e *env) operate(t *testing.T, program string, args ...string) *operator {
	t.Helper()
	health, hook := free(t), free(t)
	_, port, _ := net.SplitHostPort(hook)
	o := &operator{log: &lockedBuffer{}, ended: make(chan error, 1), health: "http://" + health, webhook: hook}
	o.cmd = exec.Command(program, append([]string{
		"--kubeconfig=" + e.Kubeconfig(), "--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=" + health, "--webhook-port=" + port,
		"--leader-elect", "--leader-elect-namespace=default",
	}, args...)...)
	o.cmd.Stdout, o.cmd.Stderr = o.log, o.log
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { o.ended <- o.cmd.Wait() }()
	t.Cleanup(func() {
		_ = o.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("log of the operator:\n%s", o.log)
		}
	})
	eventually(t, "the operator is ready", o.ready)
	return o
}

func (o *operator) ready() error {
	resp, err := http.Get(o.health + "/readyz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return differ("status of /readyz", resp.StatusCode, http.StatusOK)
}

// stop sends SIGTERM and requires an orderly end.
func (o *operator) stop(t *testing.T) {
	t.Helper()
	if err := o.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-o.ended:
		if err != nil {
			t.Errorf("the operator ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("the operator does not end")
	}
}

// TestTheProgramOfTheDocumentation builds the program in the documentation word for word. Two instances run, with webhooks,
// hand over to each other, and end in an orderly way.
func TestTheProgramOfTheDocumentation(t *testing.T) {
	t.Parallel()
	program, err := example.Build(filepath.Join("..", ".."), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e := start(t, cluster.Options{NoKwok: true})
	certs := e.issue(t, "webhook")
	first := e.operate(t, program, "--webhook-cert-dir="+filepath.Dir(certs.certFile))
	eventually(t, "namespaces that were there get a team", func() error { return e.team(t, "default", "unassigned") })
	second := e.operate(t, program, "--webhook-cert-dir="+filepath.Dir(certs.certFile))

	// Admission: both respond, whichever leads.
	e.apply(t, teamWebhooks(second.webhook, must(os.ReadFile(e.PKI().CACert))(t)))
	eventually(t, "the webhook gives a namespace its team before it is stored", func() error {
		ns, err := e.Client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "hooked-"}}, metav1.CreateOptions{DryRun: []string{"All"}})
		return errors.Join(err, differ("team", ns.Labels["team"], "unassigned"))
	})
	e.kubectl(t, "create", "namespace", "owned")
	e.kubectl(t, "label", "namespace", "owned", "team=blue", "--overwrite")
	if out, err := e.tryKubectl(t, "", "label", "namespace", "owned", "team=unassigned", "--overwrite"); err == nil || !strings.Contains(err.Error(), `metadata.labels[team]: Forbidden: a namespace keeps its team`) {
		t.Errorf("a namespace may lose its team: %s, %v", out, err)
	}

	// Hand-over: the lease goes to the other within seconds of the end.
	lease := func() *coordinationv1.Lease {
		return must(e.Client().CoordinationV1().Leases("default").Get(t.Context(), "teams", metav1.GetOptions{}))(t)
	}
	was := *lease().Spec.HolderIdentity
	first.stop(t)
	stopped := time.Now()
	eventually(t, "the other leads", func() error {
		if now := *lease().Spec.HolderIdentity; now == was || now == "" {
			return fmt.Errorf("held by %q", now)
		}
		return nil
	})
	if took := lease().Spec.AcquireTime.Sub(stopped); took > 5*time.Second*slowness(t) {
		t.Errorf("the other took over after %v, as if the lease had not been given back", took)
	}
	e.kubectl(t, "delete", "mutatingwebhookconfiguration", "teams")
	e.kubectl(t, "delete", "validatingwebhookconfiguration", "teams")
	eventually(t, "the controller mends what no webhook sees", func() error {
		ns, err := e.Client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "late-"}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		within(t, patience, "a team", func() error { return e.team(t, ns.Name, "unassigned") })
		return nil
	})
	eventually(t, "an event says so", func() error {
		list, err := e.Client().CoreV1().Events("").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=TeamMissing"})
		if err == nil && len(list.Items) == 0 {
			err = errors.New("none")
		}
		return err
	})
	second.stop(t)
	if holder := lease().Spec.HolderIdentity; holder != nil && *holder != "" {
		t.Errorf("the lease is held by %s after the end", *holder)
	}
	if log := second.log.String(); !strings.Contains(log, "Stopping the controllers") || strings.Contains(log, "not stopped in time") {
		t.Errorf("log:\n%s", log)
	}
}

func (e *env) team(t *testing.T, namespace, want string) error {
	ns, err := e.Client().CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return differ("team of "+namespace, ns.Labels["team"], want)
}

// teamWebhooks registers the program's webhooks at an address of this machine.
func teamWebhooks(address string, ca []byte) string {
	hook := func(kind, path, operations string) string {
		return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: %s
metadata: {name: teams}
webhooks:
- name: teams.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {url: "https://%s%s", caBundle: %s}
  rules:
  - {apiGroups: [""], apiVersions: [v1], resources: [namespaces], operations: [%s]}
`, kind, address, path, base64.StdEncoding.EncodeToString(ca), operations)
	}
	return hook("MutatingWebhookConfiguration", "/mutate--v1-namespace", "CREATE") + "---\n" +
		hook("ValidatingWebhookConfiguration", "/validate--v1-namespace", "CREATE, UPDATE")
}
