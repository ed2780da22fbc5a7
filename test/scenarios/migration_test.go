package scenarios

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
)

// moving assigns Deployments to the holder of the lease "move", and Jobs to another component.
const moving = `apiVersion: controllermanager.config.k8s.io/v1
kind: LeaderMigrationConfiguration
leaderName: move
controllerLeaders:
- {name: deployment-controller, component: "*"}
- {name: route-controller, component: "*"}
- {name: job-controller, component: cloud-controller-manager}
`

// holdMove sets the holder of the lease "move" for an hour, creating the lease if necessary.
func (e *env) holdMove(t *testing.T, who string) {
	t.Helper()
	leases := e.Client().CoordinationV1().Leases("kube-system")
	now, seconds := metav1.NowMicro(), int32(3600)
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "move"}}
	l.Spec = coordinationv1.LeaseSpec{HolderIdentity: &who, LeaseDurationSeconds: &seconds, RenewTime: &now, AcquireTime: &now}
	if _, err := leases.Create(t.Context(), l, metav1.CreateOptions{}); err == nil {
		return
	}
	eventually(t, who+" is written into the lease", func() error {
		have, err := leases.Get(t.Context(), "move", metav1.GetOptions{})
		if err != nil {
			return err
		}
		have.Spec = l.Spec
		_, err = leases.Update(t.Context(), have, metav1.UpdateOptions{})
		return err
	})
}

func (e *env) moveHolder(t *testing.T) string {
	t.Helper()
	return *must(e.Client().CoordinationV1().Leases("kube-system").Get(t.Context(), "move", metav1.GetOptions{}))(t).Spec.HolderIdentity
}

// deploys waits until a new Deployment has been reconciled, and its ReplicaSet too.
func (e *env) deploys(t *testing.T, name string) {
	t.Helper()
	must(e.Client().AppsV1().Deployments("default").Create(t.Context(), deployment(name, 1), metav1.CreateOptions{}))(t)
	e.deployed(t, name)
}

func (e *env) deployed(t *testing.T, name string) {
	t.Helper()
	eventually(t, "pods of Deployment "+name, func() error {
		d := must(e.Client().AppsV1().Deployments("default").Get(t.Context(), name, metav1.GetOptions{}))(t)
		return errors.Join(differ("replicas", d.Status.Replicas, 1), differ("observed generation", d.Status.ObservedGeneration, d.Generation))
	})
}

// TestLeaderMigration has another component hold the lease of the migrating controllers, release it, and take it again.
func TestLeaderMigration(t *testing.T) {
	own(t, "changes the controller manager")
	t.Parallel()
	e := start(t, cluster.Options{NoKwok: true})
	e.mayEnd = true
	file := filepath.Join(t.TempDir(), "migration.yaml")
	if err := os.WriteFile(file, []byte(moving), 0o644); err != nil {
		t.Fatal(err)
	}
	flags := append([]string{"--enable-leader-migration", "--leader-migration-config=" + file}, shortLease...)

	e.holdMove(t, "stranger")
	p := e.manage(t, cluster.Orrery, flags...)
	must(e.Client().AppsV1().Deployments("default").Create(t.Context(), deployment("blocked", 1), metav1.CreateOptions{}))(t)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: podSpec("fake:1")}}}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	must(e.Client().BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}))(t)
	must(e.Client().AppsV1().ReplicaSets("default").Create(t.Context(), replicaSet("plain", 1), metav1.CreateOptions{}))(t)
	eventually(t, "pods of a ReplicaSet, and the wait for the second lease", func() error {
		rs := must(e.Client().AppsV1().ReplicaSets("default").Get(t.Context(), "plain", metav1.GetOptions{}))(t)
		if !strings.Contains(logOf(t, p), `"Attempting to acquire leader lease..." lock="kube-system/move"`) {
			return errors.New("the second lease has not been asked for")
		}
		return differ("replicas", rs.Status.Replicas, 1)
	})
	time.Sleep(time.Second) // more than it takes where nothing stands in the way
	if d := must(e.Client().AppsV1().Deployments("default").Get(t.Context(), "blocked", metav1.GetOptions{}))(t); d.Status.ObservedGeneration != 0 {
		t.Errorf("a Deployment was seen to while a stranger held the lease: %+v", d.Status)
	}

	e.holdMove(t, "")
	e.deployed(t, "blocked")
	if j := must(e.Client().BatchV1().Jobs("default").Get(t.Context(), "elsewhere", metav1.GetOptions{}))(t); j.Status.StartTime != nil {
		t.Errorf("the Job of another component was seen to: %+v", j.Status)
	}
	if a, b := e.holder(t), e.moveHolder(t); a == "" || a != b {
		t.Errorf("holders of the two leases are %q and %q", a, b)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := exited(t, p, patience); code != 0 {
		t.Errorf("%s ended with %d", p.Name(), code)
	}
	e.givenBackInOrder(t)

	// kube-controller-manager 1.37.2 would exit when it takes the second lease, so the test uses a second daemon instead.
	// This time all controllers are under the second lease.
	flags[1] = "--leader-migration-config=" + everything(t)
	p = e.manage(t, cluster.Orrery, flags...)
	e.deploys(t, "second")
	first := e.moveHolder(t)
	next := e.manage(t, cluster.Orrery, append(flags, "--warm-standby")...)
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	e.deploys(t, "third")
	eventually(t, "the Job is seen to", func() error {
		if j := must(e.Client().BatchV1().Jobs("default").Get(t.Context(), "elsewhere", metav1.GetOptions{}))(t); j.Status.StartTime == nil {
			return errors.New("it has not begun")
		}
		return nil
	})
	t.Logf("another one sees to Deployments %v after the first was told to stop", time.Since(begin))
	if a, b := e.holder(t), e.moveHolder(t); a == "" || a != b || a == first {
		t.Errorf("holders of the two leases are %q and %q, before it was %q", a, b, first)
	}

	e.expect("the leader lease was lost")
	e.holdMove(t, "thief")
	if code := exited(t, next, patience); code != 1 || e.holder(t) != "" || e.moveHolder(t) != "thief" {
		t.Errorf("after a lease was taken away the daemon ended with %d, and the holders are %q and %q", code, e.holder(t), e.moveHolder(t))
	}
}

// everything returns a configuration file that assigns all controllers to the lease "move".
func everything(t *testing.T) string {
	t.Helper()
	out := must(exec.CommandContext(t.Context(), orreryBin, "controllers", "-o", "json").Output())(t)
	var all []struct{ Name string }
	if err := json.Unmarshal(out, &all); err != nil || len(all) < 20 {
		t.Fatalf("%d controllers: %v", len(all), err)
	}
	text := strings.SplitAfter(moving, "controllerLeaders:\n")[0]
	for _, c := range all {
		text += "- {name: " + c.Name + ", component: kube-controller-manager}\n"
	}
	file := filepath.Join(t.TempDir(), "everything.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// givenBackInOrder checks that nobody holds a lease, that the second was given back first, and that nothing was written after that.
func (e *env) givenBackInOrder(t *testing.T) {
	t.Helper()
	if a, b := e.holder(t), e.moveHolder(t); a != "" || b != "" {
		t.Errorf("holders of the two leases are %q and %q after the end", a, b)
	}
	var last []string
	for _, a := range e.audit(t, func(a auditEvent) bool { return a.byOrrery() && changing(a) && a.kind() != "events" }) {
		if a.kind() == "leases" {
			last = append(last, a.Object.Name)
		} else {
			last = append(last, a.String())
		}
	}
	last = last[max(0, len(last)-2):]
	if !slices.Equal(last, []string{"move", "kube-controller-manager"}) {
		t.Errorf("last writes are %q, want the second lease and then the first", last)
	}
}

// changing is true for every request that changes something.
func changing(a auditEvent) bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, a.Verb)
}
