package scenarios

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
	"orrery/hack/localcluster/faultproxy"
)

// behindFaults starts a cluster with a daemon that connects to the API server through a proxy that can inject faults.
func behindFaults(t *testing.T) (*env, *faultproxy.Proxy, *cluster.Process) {
	t.Helper()
	e := start(t, cluster.Options{Nodes: 3, Untaint: true})
	e.turmoil = true
	f := newFaults(t, e)
	p := e.manage(t, cluster.Orrery, append([]string{"--kubeconfig=" + e.throughServer(t, f.URL())}, patientLease...)...)
	if err := e.WaitUsable(timeout(t, patience)); err != nil {
		t.Fatal(err)
	}
	return e, f, p
}

func createsPod(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods")
}

func onLease(r *http.Request) bool { return strings.Contains(r.URL.Path, "/leases/") }

func TestStorms(t *testing.T) {
	t.Parallel()
	e, f, p := behindFaults(t)
	var refused atomic.Int64
	storm := func(code int, reason string, hit func(*http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if onLease(r) || !hit(r) || rand.IntN(3) == 0 {
				return false
			}
			refused.Add(1)
			if code == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", "1")
			}
			faultproxy.Refuse(w, code, reason)
			return true
		}
	}
	anything := func(*http.Request) bool { return true }
	updates := func(r *http.Request) bool { return r.Method == http.MethodPut || r.Method == http.MethodPatch }
	writes := func(r *http.Request) bool { return r.Method != http.MethodGet }

	f.Misbehave(storm(http.StatusTooManyRequests, "TooManyRequests", anything), nil)
	must(e.Client().AppsV1().Deployments("default").Create(t.Context(), deployment("web", 20), metav1.CreateOptions{}))(t)
	must(e.Client().CoreV1().Services("default").Create(t.Context(), service("web"), metav1.CreateOptions{}))(t)
	time.Sleep(5 * time.Second)
	f.Misbehave(storm(http.StatusConflict, "Conflict", updates), nil)
	e.kubectl(t, "set", "image", "deployment/web", "c=fake:2")
	time.Sleep(5 * time.Second)
	f.Misbehave(storm(http.StatusInternalServerError, "InternalError", writes), nil)
	e.kubectl(t, "scale", "deployment/web", "--replicas=30")
	time.Sleep(5 * time.Second)
	n := refused.Load()
	f.Misbehave(nil, nil)
	t.Logf("%d requests were refused", n)
	if n < 10 || n > 15*200 {
		t.Errorf("%d requests were refused in 15 s: want some, and no busy loop", n)
	}
	eventually(t, "all is well after the storms", func() error {
		pods, err := e.pods(t, "default", "web")
		return errors.Join(err, differ("pods", len(pods), 30), e.rolledOut(t, "default", "web", 30), e.exposed(t, "default", "web", 30))
	})
	if !p.Running() {
		t.Errorf("%s has ended", p.Name())
	}
}

// TestLostAnswers loses the response to the creation of a pod, once after the API server has stored the pod, and once
// before it has received the request.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	e, f, _ := behindFaults(t)
	for name, stored := range map[string]bool{"stored": true, "not-stored": false} {
		t.Run(name, func(t *testing.T) {
			const want = 7
			var seen, dropped atomic.Int64
			// Not the first: slow start would stop after its failure.
			drop := func() bool { return seen.Add(1) == 3 && dropped.Add(1) == 1 }
			if stored {
				f.Misbehave(nil, func(r *http.Response) error {
					if createsPod(r.Request) && r.StatusCode == http.StatusCreated && drop() {
						return errors.New("lost")
					}
					return nil
				})
			} else {
				f.Misbehave(func(_ http.ResponseWriter, r *http.Request) bool {
					if createsPod(r) && drop() {
						faultproxy.Lose()
					}
					return false
				}, nil)
			}
			defer f.Misbehave(nil, nil)
			ns := e.namespace(t, name)
			must(e.Client().AppsV1().ReplicaSets(ns).Create(t.Context(), replicaSet(name, want), metav1.CreateOptions{}))(t)
			eventually(t, "all pods", func() error {
				rs := must(e.Client().AppsV1().ReplicaSets(ns).Get(t.Context(), name, metav1.GetOptions{}))(t)
				pods, err := e.pods(t, ns, name)
				return errors.Join(err, differ("pods", len(pods), want), differ("ready", rs.Status.ReadyReplicas, want))
			})
			if dropped.Load() != 1 {
				t.Errorf("%d answers were lost, want one", dropped.Load())
			}
			if made := e.podsMade(t, ns); made != want {
				t.Errorf("%d pods were made, want %d", made, want)
			}
		})
	}
}

// podsMade counts the pods that the daemon has ever created in a namespace.
func (e *env) podsMade(t *testing.T, namespace string) int {
	t.Helper()
	return len(e.audit(t, func(a auditEvent) bool {
		return a.byOrrery() && a.Verb == "create" && a.kind() == "pods" && a.Object.Namespace == namespace && a.Response.Code == http.StatusCreated
	}))
}

// TestLateEvents delays changes of pods by five seconds.
func TestLateEvents(t *testing.T) {
	t.Parallel()
	e, f, p := behindFaults(t)
	var slowed atomic.Int64
	f.Misbehave(nil, func(r *http.Response) error {
		if r.Request.URL.Path == "/api/v1/pods" && r.Request.URL.Query().Get("watch") != "" {
			slowed.Add(1)
			r.Body = faultproxy.Delay(r.Body, 5*time.Second)
		}
		return nil
	})
	f.Cut() // so that the watch begins anew
	eventually(t, "the watch is slow", func() error {
		if slowed.Load() == 0 {
			return errors.New("it has not begun")
		}
		return nil
	})
	const want = 20
	must(e.Client().AppsV1().ReplicaSets("default").Create(t.Context(), replicaSet("late", 0), metav1.CreateOptions{}))(t)
	begin := time.Now()
	e.kubectl(t, "scale", "replicaset", "late", "--replicas=20")
	eventually(t, "the status shows them", func() error {
		rs := must(e.Client().AppsV1().ReplicaSets("default").Get(t.Context(), "late", metav1.GetOptions{}))(t)
		return differ("ready", rs.Status.ReadyReplicas, want)
	})
	if took := time.Since(begin); took < 5*time.Second {
		t.Fatalf("the status showed the pods after %v: their events were not late", took)
	}
	if made := e.podsMade(t, "default"); made != want {
		t.Errorf("%d pods were made, want %d", made, want)
	}
	e.kubectl(t, "scale", "replicaset", "late", "--replicas=5")
	eventually(t, "the status shows five", func() error {
		rs := must(e.Client().AppsV1().ReplicaSets("default").Get(t.Context(), "late", metav1.GetOptions{}))(t)
		return errors.Join(differ("replicas", rs.Status.Replicas, 5), differ("ready", rs.Status.ReadyReplicas, 5))
	})
	pods := must(e.pods(t, "default", "late"))(t)
	if len(pods) != 5 || e.podsMade(t, "default") != want {
		t.Errorf("%d pods are left and %d were ever made, want 5 and %d", len(pods), e.podsMade(t, "default"), want)
	}
	if !p.Running() {
		t.Errorf("%s has ended", p.Name())
	}
}
