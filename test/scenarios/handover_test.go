package scenarios

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
)

// raised raises the request limits of kube-controller-manager, so that a test does not wait for them. The daemon accepts
// the same flags.
var raised = []string{"--kube-api-qps=1000", "--kube-api-burst=2000"}

// TestHandOver stops one controller manager in the middle of a rollout, of a collection and of a namespace's deletion,
// and lets the other finish: from kube-controller-manager to the daemon, and back.
func TestHandOver(t *testing.T) {
	own(t, "changes the controller manager")
	for _, order := range [][2]cluster.ManagerKind{{cluster.Upstream, cluster.Orrery}, {cluster.Orrery, cluster.Upstream}} {
		t.Run(fmt.Sprintf("%s to %s", order[0], order[1]), func(t *testing.T) {
			t.Parallel()
			handOver(t, order[0], order[1])
		})
	}
}

func handOver(t *testing.T, from, to cluster.ManagerKind) {
	e := start(t, cluster.Options{Nodes: 4, Untaint: true, ControllerManager: from, CMArgs: append([]string{"-v=2"}, raised...)})
	if err := e.WaitUsable(timeout(t, 2*patience)); err != nil {
		t.Fatal(err)
	}
	const replicas = 30
	ns, doomed, owners := e.namespace(t, "roll"), e.namespace(t, "doomed"), e.namespace(t, "owners")
	must(e.Client().CoreV1().Services(ns).Create(t.Context(), service("web"), metav1.CreateOptions{}))(t)
	d := deployment("web", replicas)
	// Slow pods, so that the rollout is still under way when the manager ends.
	d.Spec.Template.Annotations = map[string]string{"localcluster.orrery/start-after": "2s"}
	must(e.Client().AppsV1().Deployments(ns).Create(t.Context(), d, metav1.CreateOptions{}))(t)
	e.prepareDoomed(t, doomed, owners)
	eventually(t, "first rollout", func() error {
		return errors.Join(e.rolledOut(t, ns, "web", replicas), e.exposed(t, ns, "web", replicas))
	})
	kept := e.slices(t, ns)

	// Everything at once, and the manager is stopped before it can finish any of it.
	e.kubectl(t, "-n", ns, "set", "image", "deployment/web", "c=fake:2")
	e.kubectl(t, "delete", "namespace", doomed, "--wait=false")
	eventually(t, "rollout is under way", func() error {
		d := must(e.Client().AppsV1().Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{}))(t)
		if n := d.Status.UpdatedReplicas; n < 5 {
			return fmt.Errorf("%d updated replicas", n)
		}
		return nil
	})
	e.kubectl(t, "-n", owners, "delete", "replicaset", "big", "--cascade=background", "--wait=false")
	sets := e.replicaSets(t, ns)
	e.stopManager(t)
	if err := e.rolledOut(t, ns, "web", replicas); err == nil {
		t.Error("the rollout was already over: nothing was handed over")
	}

	begin := time.Now()
	e.manage(t, to, raised...)
	eventually(t, "the rollout ends", func() error {
		return errors.Join(e.rolledOut(t, ns, "web", replicas), e.exposed(t, ns, "web", replicas))
	})
	t.Logf("%s finished the rollout of %s in %v", to, from, time.Since(begin))
	if got := e.replicaSets(t, ns); !same(got, sets) || len(got) != 2 {
		t.Errorf("ReplicaSets are %v, want %v and no others", got, sets)
	}
	if got := e.slices(t, ns); !same(got, kept) {
		t.Errorf("EndpointSlices are %v, want those from before, %v", got, kept)
	}
	e.nothingLeft(t, doomed)
	e.empty(t, owners, "replicasets", "pods")
	e.settled(t, from, to)
}

// prepareDoomed fills a namespace that is to be deleted, and makes an owner of many pods in another.
func (e *env) prepareDoomed(t *testing.T, doomed, owners string) {
	t.Helper()
	e.configMaps(t, doomed, 20)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "lingers", Annotations: map[string]string{"localcluster.orrery/terminate-after": "8s"}}, Spec: podSpec("fake:1")}
	must(e.Client().CoreV1().Pods(doomed).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	must(e.Client().AppsV1().ReplicaSets(owners).Create(t.Context(), replicaSet("big", 100), metav1.CreateOptions{}))(t)
	eventually(t, "pods of big", func() error {
		rs := must(e.Client().AppsV1().ReplicaSets(owners).Get(t.Context(), "big", metav1.GetOptions{}))(t)
		return differ("ready", rs.Status.ReadyReplicas, 100)
	})
}

// stopManager stops the running manager, and releases its lease: kube-controller-manager does not do that itself.
func (e *env) stopManager(t *testing.T) {
	t.Helper()
	p := e.orrery()
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := e.Client().CoordinationV1().Leases("kube-system").Delete(t.Context(), "kube-controller-manager", metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// settled has the two managers take turns on a cluster in which nothing is left to do, and checks that neither rewrites
// what the other has written.
func (e *env) settled(t *testing.T, from, to cluster.ManagerKind) {
	t.Helper()
	before := e.quiet(t)
	if len(before) < 60 {
		t.Fatalf("only %d objects are watched", len(before))
	}
	for _, next := range []cluster.ManagerKind{from, to} {
		e.stopManager(t)
		e.manage(t, next, raised...)
		eventually(t, string(next)+" leads", func() error {
			if e.holder(t) == "" {
				return errors.New("nobody holds the lease")
			}
			return nil
		})
		begin := time.Now()
		time.Sleep(10 * time.Second) // for all that it might want to write
		for _, a := range e.audit(t, func(a auditEvent) bool { return a.byOrrery() && a.writes() && a.Received.After(begin) }) {
			t.Errorf("%s had nothing to do and wrote: %s", next, a)
		}
		after := e.versions(t)
		for name, version := range before {
			if after[name] != version {
				t.Errorf("%s rewrote %s: version %s, then %s", next, name, version, after[name])
			}
		}
		for name := range after {
			if before[name] == "" {
				t.Errorf("%s made %s", next, name)
			}
		}
		before = after
	}
}

// quiet waits until nothing has been written for a few seconds and returns the versions of all objects.
func (e *env) quiet(t *testing.T) map[string]string {
	t.Helper()
	last, since := e.versions(t), time.Now()
	within(t, patience, "nothing is written any more", func() error {
		if now := e.versions(t); fmt.Sprint(now) != fmt.Sprint(last) {
			last, since = now, time.Now()
		}
		if still := time.Since(since); still < 5*time.Second {
			return fmt.Errorf("still for %v", still)
		}
		return nil
	})
	return last
}

// versions returns the resource version of each object that a controller manager writes. Of nodes, whose kubelets
// write too, it is what the manager is responsible for.
func (e *env) versions(t *testing.T) map[string]string {
	t.Helper()
	out := e.kubectl(t, "get", "deployments,replicasets,daemonsets,controllerrevisions,endpointslices,configmaps,serviceaccounts,namespaces,pods,services", "-A",
		"-o", `jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`)
	all := map[string]string{}
	for line := range strings.Lines(out) {
		name, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		// The API server keeps this one itself, in step with its certificates.
		if name != "ConfigMap/kube-system/extension-apiserver-authentication" && name != "" {
			all[name] = version
		}
	}
	for _, node := range must(e.Client().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t).Items {
		all["Node/"+node.Name] = fmt.Sprint(node.Labels, node.Annotations, node.Spec)
	}
	return all
}

func (e *env) replicaSets(t *testing.T, namespace string) (names []string) {
	t.Helper()
	for _, rs := range must(e.Client().AppsV1().ReplicaSets(namespace).List(t.Context(), metav1.ListOptions{}))(t).Items {
		names = append(names, rs.Name)
	}
	return slices.Sorted(slices.Values(names))
}

func (e *env) slices(t *testing.T, namespace string) (names []string) {
	t.Helper()
	for _, slice := range must(e.Client().DiscoveryV1().EndpointSlices(namespace).List(t.Context(), metav1.ListOptions{}))(t).Items {
		names = append(names, slice.Name)
	}
	return names
}
