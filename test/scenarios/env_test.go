package scenarios

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
)

// auditPolicy records the requests of controller managers.
//
//go:embed testdata/audit-policy.yaml
var auditPolicy []byte

// env is a cluster under test.
type env struct {
	*cluster.Cluster
	dir     string
	allowed []*regexp.Regexp      // errors in the log that do not count, because the test causes them
	refused func(auditEvent) bool // requests that the test makes the API server deny
	mayEnd  bool                  // the test makes a daemon end by itself
	turmoil bool                  // the test breaks the API server: errors and refusals are expected, crashes are not
}

// start starts a cluster that is stopped and examined at the end of the test.
func start(t *testing.T, o cluster.Options) *env {
	t.Helper()
	own(t, "starts a control plane or a daemon")
	dir := t.TempDir()
	policy := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, auditPolicy, 0o644); err != nil {
		t.Fatal(err)
	}
	e := &env{dir: dir}
	e.expect(stopNoise...)
	o.Name, o.Dir, o.OrreryBin, o.Log = t.Name(), filepath.Join(dir, "cluster"), orreryBin, t.Output()
	o.ReadyTimeout = 2 * patience
	o.APIServerArgs = append(o.APIServerArgs, "--audit-policy-file="+policy, "--audit-log-path="+e.auditPath(), "--audit-log-format=json")
	c, err := cluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	e.Cluster = c
	t.Cleanup(func() { e.finish(t) })
	return e
}

// withOrrery starts a cluster with n nodes and the daemon in it, ready for pods.
func withOrrery(t *testing.T, n int, args ...string) *env {
	t.Helper()
	e := start(t, cluster.Options{Nodes: n, Untaint: true, ControllerManager: cluster.Orrery, CMArgs: append([]string{"-v=2"}, args...)})
	if err := e.WaitUsable(timeout(t, patience)); err != nil {
		t.Fatal(err)
	}
	return e
}

// stopNoise matches what libraries log when the end of the process interrupts requests.
var stopNoise = []string{`context canceled"`, "Unable to write event .*(write refused|broadcaster is shut down|context canceled)"}

// expect announces errors that the test makes the daemon report.
func (e *env) expect(patterns ...string) {
	for _, p := range patterns {
		e.allowed = append(e.allowed, regexp.MustCompile(p))
	}
}

func (e *env) auditPath() string { return filepath.Join(e.dir, "audit.log") }

// finish stops the cluster and checks the rules for every run.
func (e *env) finish(t *testing.T) {
	if err := e.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	for !e.mayEnd && len(e.Failures()) > 0 {
		t.Errorf("ended by itself: %v", <-e.Failures())
	}
	for _, p := range e.ControllerManagers() {
		if !strings.HasPrefix(p.Name(), string(cluster.Orrery)) {
			continue
		}
		text, err := os.ReadFile(p.LogPath())
		if err != nil {
			t.Error(err)
		}
		for _, line := range faultsInLog(string(text), e.allowed) {
			if !e.turmoil || crash.MatchString(line) {
				t.Errorf("log of %s: %s", p.Name(), line)
			}
		}
	}
	if e.turmoil {
		e.refused = func(auditEvent) bool { return true }
	}
	for _, denied := range e.audit(t, func(a auditEvent) bool { return a.byOrrery() && a.denied() && (e.refused == nil || !e.refused(a)) }) {
		t.Errorf("denied by the API server: %s", denied)
	}
	if keep := os.Getenv("ORRERY_KEEP"); keep != "" && t.Failed() {
		to := filepath.Join(keep, strings.ReplaceAll(t.Name(), "/", "_"))
		_ = os.RemoveAll(to)
		if err := os.CopyFS(to, os.DirFS(filepath.Join(e.Dir(), "logs"))); err != nil {
			t.Log(err)
		}
		if text, err := os.ReadFile(e.auditPath()); err == nil {
			_ = os.WriteFile(filepath.Join(to, "audit.log"), text, 0o644)
		}
	}
}

// manage starts a controller manager and waits until it is healthy.
func (e *env) manage(t *testing.T, kind cluster.ManagerKind, args ...string) *cluster.Process {
	t.Helper()
	p, err := e.StartControllerManager(t.Context(), kind, append([]string{"-v=2"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WaitHealthy(timeout(t, patience)); err != nil {
		t.Fatal(err)
	}
	return p
}

// orrery returns the daemon that was started last.
func (e *env) orrery() *cluster.Process {
	all := e.ControllerManagers()
	return all[len(all)-1]
}

// namespace creates a namespace and returns its name once pods can be created in it. In an existing cluster it is deleted at
// the end of the test.
func (e *env) namespace(t *testing.T, name string) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := e.Client().CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.forget(t, name)
	eventually(t, "service account default in "+name, func() error {
		_, err := e.Client().CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	return name
}

func timeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until check finds nothing wrong.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	within(t, patience, what, check)
}

func within(t *testing.T, d time.Duration, what string, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(d); ; time.Sleep(100 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not so after %v: %v", what, d, err)
		}
	}
}

// must returns the value of a call that cannot reasonably fail.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// differ returns an error with both values if they are not equal.
func differ[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s is %v, want %v", what, got, want)
	}
	return nil
}
