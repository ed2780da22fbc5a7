package scenarios

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
)

// TestPausedLeaderWritesNothingWhenItContinues freezes the leader past its lease. Another takes over; the first one,
// woken up with work in its queues and its old tokens in its hands, must see that it is too late.
func TestPausedLeaderWritesNothingWhenItContinues(t *testing.T) {
	e := start(t, cluster.Options{ControllerManager: cluster.Orrery, CMArgs: append([]string{"-v=2"}, shortLease...)})
	if err := e.WaitUsable(timeout(t, patience)); err != nil {
		t.Fatal(err)
	}
	e.mayEnd = true
	e.expect("lease", "write refused", "deadline exceeded")
	sets := e.Client().AppsV1().ReplicaSets("default")
	must(sets.Create(t.Context(), replicaSet("crowd", 1000), metav1.CreateOptions{}))(t)
	eventually(t, "some pods", func() error {
		pods, err := e.pods(t, "default", "crowd")
		if err == nil && len(pods) < 10 {
			err = fmt.Errorf("%d", len(pods))
		}
		return err
	})
	first := e.orrery()
	old := e.holder(t)
	if err := first.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	tokens := e.credentials(t)
	second := e.manage(t, cluster.Orrery, shortLease...)
	eventually(t, "the second takes the lease", func() error {
		if now := e.holder(t); now == old || now == "" {
			return fmt.Errorf("it is held by %q", now)
		}
		return nil
	})
	// Now the first has wrong ideas, of which it must do nothing: it would make pods, the second one removes them.
	e.kubectl(t, "scale", "replicaset", "crowd", "--replicas=5")
	continued := time.Now()
	if err := first.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if code := exited(t, first, patience); code == 0 {
		t.Error("exit code 0 after the lease was lost")
	}
	if log := logOf(t, first); !strings.Contains(log, "the leader lease was lost") {
		t.Errorf("its last words do not name the lease: %s", first.LogTail(3))
	}
	eventually(t, "five pods under the second", func() error {
		pods, err := e.pods(t, "default", "crowd")
		return errors.Join(err, differ("pods", len(pods), 5))
	})
	for _, a := range e.audit(t, func(a auditEvent) bool {
		return a.writes() && a.Received.After(continued) && tokens[a.credential()] && a.Response.Code < 300
	}) {
		t.Errorf("written after another took the lease: %s", a)
	}
	if !second.Running() {
		t.Error("the second has ended")
	}
}

// credential tells tokens of the same account apart.
func (a auditEvent) credential() string {
	return strings.Join(a.User.Extra["authentication.kubernetes.io/credential-id"], ",")
}

// credentials returns the tokens that have been used for writing so far.
func (e *env) credentials(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, a := range e.audit(t, func(a auditEvent) bool {
		return a.writes() && strings.HasPrefix(a.User.Username, "system:serviceaccount:")
	}) {
		all[a.credential()] = true
	}
	if len(all) == 0 || all[""] {
		t.Fatalf("the audit log does not tell tokens apart: %v", all)
	}
	return all
}

// TestLostLeaseEndsTheProcess gives the lease to somebody else by hand.
func TestLostLeaseEndsTheProcess(t *testing.T) {
	e := start(t, cluster.Options{ControllerManager: cluster.Orrery, CMArgs: append([]string{"-v=2"}, shortLease...)})
	e.mayEnd = true
	e.expect("lease", "write refused")
	p := e.orrery()
	if err := e.WaitUsable(timeout(t, patience)); err != nil {
		t.Fatal(err)
	}
	thief, now := "somebody-else", metav1.NowMicro()
	eventually(t, "the lease stolen", func() error {
		lease := e.lease(t)
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &thief, &now
		_, err := e.Client().CoordinationV1().Leases(lease.Namespace).Update(t.Context(), lease, metav1.UpdateOptions{})
		return err
	})
	stolen := time.Now()
	if code := exited(t, p, patience); code == 0 || code == -1 {
		t.Errorf("exit code %d, want one that says failure", code)
	}
	if took := time.Since(stolen); took > 5*time.Second*slowness(t) {
		t.Errorf("ended %v after the lease was lost; the renew deadline is 3 s", took)
	}
	if holder := e.holder(t); holder != thief {
		t.Errorf("the lease is held by %q: it was taken back", holder)
	}
}
