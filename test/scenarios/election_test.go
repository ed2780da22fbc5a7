package scenarios

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
)

// coordinating has kube-apiserver choose who leads.
var coordinating = []string{"--feature-gates=CoordinatedLeaderElection=true", "--runtime-config=coordination.k8s.io/v1beta1=true"}

// termEnded is how a daemon says why it ends.
const termEnded = "the API server has chosen another leader"

// standing are the flags of a controller manager that lets it. With short times a leader that only stops renewing, as
// kube-controller-manager does at the end of its term, is replaced sooner.
func standing(more ...string) []string {
	return slices.Concat([]string{"--feature-gates=CoordinatedLeaderElection=true"}, shortLease, more)
}

// candidates returns the LeaseCandidates of controller managers by name.
func (e *env) candidates(t *testing.T) map[string]coordinationv1beta1.LeaseCandidate {
	t.Helper()
	list := must(e.Client().CoordinationV1beta1().LeaseCandidates("kube-system").List(t.Context(), metav1.ListOptions{}))(t)
	byName := map[string]coordinationv1beta1.LeaseCandidate{}
	for _, c := range list.Items {
		if c.Spec.LeaseName == "kube-controller-manager" {
			byName[c.Name] = c
		}
	}
	return byName
}

// nominee starts a controller manager and returns it with the candidate that it publishes.
func (e *env) nominee(t *testing.T, kind cluster.ManagerKind, args ...string) (*cluster.Process, string) {
	t.Helper()
	before := e.candidates(t)
	p := e.manage(t, kind, args...)
	var name string
	eventually(t, "the candidate of "+p.Name(), func() error {
		for found := range e.candidates(t) {
			if _, old := before[found]; !old {
				name = found
				return nil
			}
		}
		return errors.New("there is none")
	})
	return p, name
}

// works waits until who leads, and has made the pod of a new ReplicaSet.
func (e *env) works(t *testing.T, set, who string) {
	t.Helper()
	must(e.Client().AppsV1().ReplicaSets("default").Create(t.Context(), replicaSet(set, 1), metav1.CreateOptions{}))(t)
	eventually(t, who+" leads and has made the pod of "+set, func() error {
		if got := e.holder(t); got != who {
			return fmt.Errorf("%q holds the lease", got)
		}
		rs := must(e.Client().AppsV1().ReplicaSets("default").Get(t.Context(), set, metav1.GetOptions{}))(t)
		return differ("replicas", rs.Status.Replicas, 1)
	})
}

// tidy removes what kube-controller-manager leaves behind, and the API server would wait for: for the answer of a candidate that
// is gone, and for the end of its lease.
func (e *env) tidy(t *testing.T, candidate string) {
	t.Helper()
	err := errors.Join(
		e.Client().CoordinationV1beta1().LeaseCandidates("kube-system").Delete(t.Context(), candidate, metav1.DeleteOptions{}),
		e.Client().CoordinationV1().Leases("kube-system").Delete(t.Context(), "kube-controller-manager", metav1.DeleteOptions{}))
	if err != nil {
		t.Fatal(err)
	}
}

// TestCoordinatedElection has two daemons and then a third one, which the API server prefers.
func TestCoordinatedElection(t *testing.T) {
	own(t, "needs feature gates of kube-apiserver")
	t.Parallel()
	e := start(t, cluster.Options{NoKwok: true, APIServerArgs: coordinating})
	e.mayEnd = true
	e.expect(termEnded)
	a, nameA := e.nominee(t, cluster.Orrery, standing()...)
	e.works(t, "first", nameA)
	b, nameB := e.nominee(t, cluster.Orrery, standing("--warm-standby")...)
	if c := e.candidates(t)[nameB].Spec; !strings.HasPrefix(c.BinaryVersion, "1.37.") || c.EmulationVersion != "1.37.0" || c.Strategy != coordinationv1.OldestEmulationVersion {
		t.Errorf("the second candidate is %+v", c)
	}
	if got := e.holder(t); got != nameA {
		t.Fatalf("%q holds the lease, want the first, %q", got, nameA)
	}

	begin := time.Now()
	if err := a.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	e.works(t, "second", nameB)
	t.Logf("the second has led and made a pod %v after the first was told to stop", time.Since(begin))
	if code := exited(t, a, patience); code != 0 {
		t.Errorf("%s ended with %d", a.Name(), code)
	}
	if age := time.Since(e.candidates(t)[nameA].Spec.RenewTime.Time); age < time.Hour {
		t.Errorf("the candidate of the first still counts: it is %v old", age)
	}

	// The entry of one that is dead and would be preferred holds up an election, and decides none.
	now := metav1.NowMicro()
	dead := &coordinationv1beta1.LeaseCandidate{ObjectMeta: metav1.ObjectMeta{Name: "dead_1", Namespace: "kube-system"}, Spec: coordinationv1beta1.LeaseCandidateSpec{
		LeaseName: "kube-controller-manager", BinaryVersion: "1.35.0", EmulationVersion: "1.35.0", Strategy: coordinationv1.OldestEmulationVersion, RenewTime: &now,
	}}
	ago := metav1.NewMicroTime(now.Add(-time.Minute))
	dead.Spec.RenewTime = &ago
	must(e.Client().CoordinationV1beta1().LeaseCandidates("kube-system").Create(t.Context(), dead, metav1.CreateOptions{}))(t)
	eventually(t, "the dead one is asked", func() error {
		if e.candidates(t)["dead_1"].Spec.PingTime == nil {
			return errors.New("not yet")
		}
		return nil
	})
	c, nameC := e.nominee(t, cluster.Orrery, standing("--emulated-version=1.36")...)
	e.works(t, "third", nameC)
	if code := exited(t, b, patience); code != 1 || !strings.Contains(logOf(t, b), termEnded) {
		t.Errorf("%s ended with %d at the end of its term; its log ends with\n%s", b.Name(), code, b.LogTail(5))
	}
	if !c.Running() {
		t.Error("the third has ended")
	}
}

// TestCoordinatedElectionBesideUpstream lets kube-controller-manager and the daemon end each other's terms.
func TestCoordinatedElectionBesideUpstream(t *testing.T) {
	own(t, "needs feature gates of kube-apiserver")
	t.Parallel()
	for _, order := range [][2]cluster.ManagerKind{{cluster.Upstream, cluster.Orrery}, {cluster.Orrery, cluster.Upstream}} {
		t.Run(fmt.Sprintf("%s to %s", order[0], order[1]), func(t *testing.T) {
			t.Parallel()
			e := start(t, cluster.Options{NoKwok: true, APIServerArgs: coordinating})
			e.mayEnd = true
			e.expect(termEnded)
			p, first := e.nominee(t, order[0], standing()...)
			e.works(t, "first", first)
			_, second := e.nominee(t, order[1], standing("--emulated-version=1.36")...)
			a, b := e.candidates(t)[first].Spec, e.candidates(t)[second].Spec
			if a.LeaseName != b.LeaseName || a.BinaryVersion != b.BinaryVersion || a.Strategy != b.Strategy || a.EmulationVersion != "1.37.0" || b.EmulationVersion != "1.36.0" {
				t.Errorf("candidates are %+v and %+v", a, b)
			}
			if code := exited(t, p, patience); code != 1 {
				t.Errorf("%s ended with %d at the end of its term", p.Name(), code)
			}
			if order[0] == cluster.Upstream {
				e.tidy(t, first)
			}
			e.works(t, "second", second)
		})
	}
}

// TestCoordinatedElectionWithoutACoordinator: the daemon waits, and says for what.
func TestCoordinatedElectionWithoutACoordinator(t *testing.T) {
	own(t, "needs an API server without a feature gate")
	t.Parallel()
	e := start(t, cluster.Options{NoKwok: true})
	p := e.manage(t, cluster.Orrery, standing()...)
	eventually(t, "the log says what is missing", func() error {
		if !strings.Contains(logOf(t, p), "The API server takes no lease candidates") {
			return errors.New("it does not yet")
		}
		return nil
	})
	if got := e.holder(t); got != "" {
		t.Errorf("%q holds the lease", got)
	}
	code, body, err := visit(p, e.admin(t)).try(t, "/readyz/leaseCandidate")
	if err != nil || code == 200 || !strings.Contains(body, "has not taken the lease candidate") {
		t.Errorf("/readyz/leaseCandidate: %d %s: %v", code, body, err)
	}
}
