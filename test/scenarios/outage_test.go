package scenarios

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
)

// patientLease keeps the lease during an outage: another test covers that a lost lease ends the process.
var patientLease = []string{"--leader-elect-lease-duration=200s", "--leader-elect-renew-deadline=180s", "--leader-elect-retry-period=2s"}

// outage is how long the API server is down.
func outage() time.Duration {
	if long {
		return time.Minute
	}
	return 15 * time.Second
}

// behindWire starts a cluster with a daemon that reaches the API server through a wire that can be cut.
func behindWire(t *testing.T) (*env, *wire, *cluster.Process) {
	t.Helper()
	e := start(t, cluster.Options{Nodes: 3, Untaint: true})
	e.turmoil = true
	w := newWire(t, e)
	p := e.manage(t, cluster.Orrery, append([]string{"--kubeconfig=" + e.throughServer(t, w.server())}, patientLease...)...)
	if err := e.WaitUsable(timeout(t, patience)); err != nil {
		t.Fatal(err)
	}
	return e, w, p
}

// underLoad has a rollout and a collection under way.
func (e *env) underLoad(t *testing.T) {
	t.Helper()
	d := deployment("web", 40)
	d.Spec.Template.Annotations = map[string]string{"localcluster.orrery/start-after": "500ms"}
	must(e.Client().AppsV1().Deployments("default").Create(t.Context(), d, metav1.CreateOptions{}))(t)
	must(e.Client().CoreV1().Services("default").Create(t.Context(), service("web"), metav1.CreateOptions{}))(t)
	must(e.Client().AppsV1().ReplicaSets("default").Create(t.Context(), replicaSet("old", 60), metav1.CreateOptions{}))(t)
	eventually(t, "load is there", func() error {
		rs := must(e.Client().AppsV1().ReplicaSets("default").Get(t.Context(), "old", metav1.GetOptions{}))(t)
		return errors.Join(e.rolledOut(t, "default", "web", 40), differ("replicas", rs.Status.Replicas, 60))
	})
	e.kubectl(t, "set", "image", "deployment/web", "c=fake:2")
	e.kubectl(t, "delete", "replicaset", "old", "--cascade=background", "--wait=false")
	eventually(t, "rollout is under way", func() error {
		d := must(e.Client().AppsV1().Deployments("default").Get(t.Context(), "web", metav1.GetOptions{}))(t)
		if d.Status.UpdatedReplicas < 5 {
			return fmt.Errorf("%d updated", d.Status.UpdatedReplicas)
		}
		return nil
	})
}

// caughtUp checks that the work of underLoad ends as if nothing had happened.
func (e *env) caughtUp(t *testing.T, p *cluster.Process) {
	t.Helper()
	begin := time.Now()
	eventually(t, "the rollout ends", func() error {
		pods, err := e.pods(t, "default", "web")
		return errors.Join(err, differ("pods", len(pods), 40), e.rolledOut(t, "default", "web", 40), e.exposed(t, "default", "web", 40))
	})
	eventually(t, "the old pods are collected", func() error {
		pods, err := e.pods(t, "default", "old")
		return errors.Join(err, differ("pods", len(pods), 0))
	})
	t.Logf("caught up after %v", time.Since(begin))
	if !p.Running() {
		t.Errorf("%s has ended: %s", p.Name(), p.LogTail(3))
	}
	// New objects are seen too: no watch has been lost for good.
	e.kubectl(t, "scale", "deployment", "web", "--replicas=5")
	eventually(t, "a change after the fault is followed", func() error {
		return errors.Join(e.rolledOut(t, "default", "web", 5), e.exposed(t, "default", "web", 5))
	})
	eventually(t, "/readyz", func() error {
		code, body, err := visit(p).try(t, "/readyz")
		return errors.Join(err, differ("status of "+body, code, 200))
	})
}

func TestAPIServerOutage(t *testing.T) {
	t.Parallel()
	e := start(t, cluster.Options{Nodes: 3, Untaint: true})
	e.turmoil = true
	p := e.manage(t, cluster.Orrery, patientLease...)
	if err := e.WaitUsable(timeout(t, patience)); err != nil {
		t.Fatal(err)
	}
	e.underLoad(t)
	if err := e.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	pages := visit(p, e.admin(t))
	const slice = 5 * time.Second
	var rates []float64
	total, begin := failedRequests(t, pages), time.Now()
	for range outage() / slice {
		from := failedRequests(t, pages)
		time.Sleep(slice)
		rates = append(rates, (failedRequests(t, pages)-from)/slice.Seconds())
	}
	mean := (failedRequests(t, pages) - total) / time.Since(begin).Seconds()
	t.Logf("requests a second without an API server: %.0f, %.1f on average", rates, mean)
	if mean == 0 || mean > 50 {
		t.Errorf("%.1f requests a second while the API server was down, want some and at most 50", mean)
	}
	if first, last := rates[0], rates[len(rates)-1]; last > max(first, 5) {
		t.Errorf("the rate rises from %.1f to %.1f requests a second", first, last)
	}
	if err := e.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.caughtUp(t, p)
}

// failedRequests counts the requests to the API server that got no response. Each is one attempt to connect.
func failedRequests(t *testing.T, pages visitor) (n float64) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^rest_client_requests_total\{code="<error>"[^}]*\} (\S+)$`).FindAllStringSubmatch(pages.get(t, "/metrics", 200), -1) {
		n += must(strconv.ParseFloat(m[1], 64))(t)
	}
	return n
}

func TestEtcdPause(t *testing.T) {
	t.Parallel()
	e, _, p := behindWire(t)
	e.underLoad(t)
	if err := e.PauseEtcd(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Second)
	if err := e.ContinueEtcd(); err != nil {
		t.Fatal(err)
	}
	e.caughtUp(t, p)
}

func TestCutConnections(t *testing.T) {
	t.Parallel()
	e, w, p := behindWire(t)
	e.underLoad(t)
	cut := 0
	for range 20 {
		cut += w.cut()
		time.Sleep(300 * time.Millisecond)
	}
	if cut == 0 {
		t.Error("there was no connection to cut")
	}
	e.caughtUp(t, p)
}
