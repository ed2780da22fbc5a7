package scenarios

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
)

// shortLease makes a lease change hands in seconds.
var shortLease = []string{"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms"}

func (e *env) lease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	return must(e.Client().CoordinationV1().Leases("kube-system").Get(t.Context(), "kube-controller-manager", metav1.GetOptions{}))(t)
}

// holder returns who holds the lease, or "" if nobody does.
func (e *env) holder(t *testing.T) string {
	t.Helper()
	lease, err := e.Client().CoordinationV1().Leases("kube-system").Get(t.Context(), "kube-controller-manager", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// exited waits for a process to end and returns its exit code.
func exited(t *testing.T, p *cluster.Process, d time.Duration) int {
	t.Helper()
	if err := p.Wait(timeout(t, d)); p.Running() {
		t.Fatalf("%s still runs: %v", p.Name(), err)
	}
	return p.ExitCode()
}

func logOf(t *testing.T, p *cluster.Process) string {
	t.Helper()
	return string(must(os.ReadFile(p.LogPath()))(t))
}

// TestColdStartWritesSoon measures from the start of the process to its first write for a controller.
func TestColdStartWritesSoon(t *testing.T) {
	e := start(t, cluster.Options{})
	p := e.manage(t, cluster.Orrery)
	var first time.Time
	eventually(t, "a first write", func() error {
		for _, a := range e.audit(t, func(a auditEvent) bool { return a.byOrrery() && a.writes() && a.Response.Code < 300 }) {
			if strings.HasPrefix(a.User.Username, "system:serviceaccount:") {
				first = a.Received
				return nil
			}
		}
		return errors.New("none yet")
	})
	took := first.Sub(p.Started())
	t.Logf("first write after %v", took)
	if limit := 3 * time.Second * slowness(t); took > limit {
		t.Errorf("first write after %v, want at most %v", took, limit)
	}
}

// TestStartBeforeTheAPIServer starts the daemon while nothing answers yet.
func TestStartBeforeTheAPIServer(t *testing.T) {
	t.Parallel()
	e := start(t, cluster.Options{Nodes: 1, Untaint: true})
	// A server that has just come up does not know its roles yet.
	e.refused = func(a auditEvent) bool { return a.Verb == "get" && a.account() == "system:kube-controller-manager" }
	if err := e.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	p := must(e.StartControllerManager(t.Context(), cluster.Orrery, "-v=2"))(t)
	within(t, patience, "it says twice what it waits for", func() error {
		if n := strings.Count(logOf(t, p), `"Waiting for the API server"`); n < 2 {
			return fmt.Errorf("said so %d times", n)
		}
		return nil
	})
	if n, waited := strings.Count(logOf(t, p), `"Waiting for the API server"`), time.Since(p.Started()); n > int(waited/(2*time.Second))+1 {
		t.Errorf("said what it waits for %d times in %v", n, waited)
	}
	if !p.Running() {
		t.Fatalf("it gave up: %s", p.LogTail(5))
	}
	if err := e.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.WaitUsable(timeout(t, patience)); err != nil {
		t.Fatal(err)
	}
	must(e.Client().AppsV1().Deployments("default").Create(t.Context(), deployment("late", 2), metav1.CreateOptions{}))(t)
	eventually(t, "a deployment rolls out", func() error { return e.rolledOut(t, "default", "late", 2) })
}

// TestTermGivesTheLeaseBack stops the daemon in the middle of work.
func TestTermGivesTheLeaseBack(t *testing.T) {
	e := withOrrery(t, 1)
	must(e.Client().AppsV1().Deployments("default").Create(t.Context(), deployment("busy", 200), metav1.CreateOptions{}))(t)
	eventually(t, "some pods", func() error {
		pods, err := e.pods(t, "default", "busy")
		if err == nil && len(pods) < 20 {
			err = fmt.Errorf("%d", len(pods))
		}
		return err
	})
	p := e.orrery()
	if e.holder(t) == "" {
		t.Error("nobody holds the lease while the daemon works")
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := exited(t, p, patience); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	lease := e.lease(t)
	if holder := e.holder(t); holder != "" {
		t.Errorf("the lease is held by %s after the end", holder)
	}
	// Releasing is the last renewal; whatever another process does from then on, this one must not disturb it.
	released := lease.Spec.RenewTime.Time
	for _, a := range e.audit(t, func(a auditEvent) bool { return a.byOrrery() && a.writes() && a.Received.After(released) }) {
		t.Errorf("written after the lease was released: %s", a)
	}
	next := e.manage(t, cluster.Orrery)
	within(t, patience, "another takes over and finishes", func() error { return e.rolledOut(t, "default", "busy", 200) })
	if waited := e.lease(t).Spec.AcquireTime.Sub(next.Started()); waited > 3*time.Second*slowness(t) {
		t.Errorf("the next one got the lease after %v, as if it had not been released", waited)
	}
}

// TestSecondSignalEndsAtOnce sends SIGTERM twice while the API server hangs, so that the first cannot finish.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	e := withOrrery(t, 0, "--leader-elect-lease-duration=3m", "--leader-elect-renew-deadline=2m")
	e.expect(`.`) // what it reports while nothing answers is not the point here
	p := e.orrery()
	if err := e.APIServer().Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.APIServer().Signal(syscall.SIGCONT) }()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "it has begun to stop", func() error {
		if !strings.Contains(logOf(t, p), "Stopping the controllers") {
			return errors.New("not in the log")
		}
		return nil
	})
	if !p.Running() {
		t.Fatal("it ended although it could not give the lease back")
	}
	begin := time.Now()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	exited(t, p, patience)
	if took := time.Since(begin); took > 2*time.Second*slowness(t) {
		t.Errorf("ended %v after the second signal", took)
	}
}
