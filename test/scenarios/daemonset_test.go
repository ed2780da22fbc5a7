package scenarios

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"orrery/hack/localcluster/cluster"
)

// daemonSet describes a DaemonSet with the same kind of pods as other workloads have, which take a while to start.
func daemonSet(name, unavailable, surge, startAfter string) *appsv1.DaemonSet {
	d := deployment(name, 0)
	d.Spec.Template.Annotations = map[string]string{"localcluster.orrery/start-after": startAfter}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: d.Spec.Selector, Template: d.Spec.Template,
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type: appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{
					MaxUnavailable: new(intstr.Parse(unavailable)), MaxSurge: new(intstr.Parse(surge)),
				},
			},
		},
	}
}

// daemons is nil once a DaemonSet has an available pod of its current template on the wanted number of nodes,
// and no other pods.
func (e *env) daemons(t *testing.T, namespace, name string, want int32) error {
	set, err := e.Client().AppsV1().DaemonSets(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	s := set.Status
	if s.ObservedGeneration < set.Generation || s.DesiredNumberScheduled != want || s.CurrentNumberScheduled != want ||
		s.UpdatedNumberScheduled != want || s.NumberAvailable != want || s.NumberReady != want || s.NumberMisscheduled != 0 || s.NumberUnavailable != 0 {
		return fmt.Errorf("generation %d, status %+v", set.Generation, s)
	}
	pods, err := e.pods(t, namespace, name)
	return errors.Join(err, differ("pods", int32(len(pods)), want))
}

// TestDaemonSet changes one DaemonSet and its nodes as users and administrators do.
func TestDaemonSet(t *testing.T) {
	t.Parallel()
	e := withOrrery(t, 4)
	ns := e.namespace(t, "daemons")
	must(e.Client().AppsV1().DaemonSets(ns).Create(t.Context(), daemonSet("web", "2", "0", "100ms"), metav1.CreateOptions{}))(t)
	e.kubectl(t, "-n", ns, "rollout", "status", "daemonset/web", "--timeout=2m")
	eventually(t, "a pod on each node", func() error { return e.daemons(t, ns, "web", 4) })

	e.kubectl(t, "-n", ns, "set", "image", "daemonset/web", "c=fake:2")
	e.kubectl(t, "-n", ns, "rollout", "status", "daemonset/web", "--timeout=2m")
	e.kubectl(t, "-n", ns, "rollout", "undo", "daemonset/web")
	e.kubectl(t, "-n", ns, "rollout", "status", "daemonset/web", "--timeout=2m")
	eventually(t, "the first template again", func() error { return e.daemons(t, ns, "web", 4) })
	if lines := strings.Fields(e.kubectl(t, "-n", ns, "rollout", "history", "daemonset/web")); !slices.Contains(lines, "2") || !slices.Contains(lines, "3") || slices.Contains(lines, "1") {
		t.Errorf("the history has other revisions than 2 and 3: %v", lines)
	}

	t.Run("a new node gets its pod at once", func(t *testing.T) {
		before := time.Now()
		node := must(e.AddNodes(t.Context(), 1))(t)[0]
		ready := time.Now()
		eventually(t, "its pod", func() error { return e.daemons(t, ns, "web", 5) })
		for _, p := range must(e.pods(t, ns, "web"))(t) {
			if p.Spec.NodeName == node {
				// Times in the API have a resolution of a second. The pod need not wait for its node to be ready.
				t.Logf("the pod was made %v after the node was asked for, which took %v to be ready", p.CreationTimestamp.Sub(before.Truncate(time.Second)), ready.Sub(before))
				if p.CreationTimestamp.After(ready.Add(time.Second)) {
					t.Errorf("the pod was made at %v, the node was ready at %v", p.CreationTimestamp, ready)
				}
			}
		}
	})
	t.Run("taints keep out and drive out", func(t *testing.T) {
		e.kubectl(t, "taint", "node", "node-1", "test=x:NoSchedule")
		eventually(t, "misscheduled", func() error {
			s := must(e.Client().AppsV1().DaemonSets(ns).Get(t.Context(), "web", metav1.GetOptions{}))(t).Status
			return errors.Join(differ("misscheduled", s.NumberMisscheduled, 1), differ("desired", s.DesiredNumberScheduled, 4))
		})
		e.kubectl(t, "taint", "node", "node-1", "test=x:NoExecute")
		eventually(t, "driven out", func() error { return e.daemons(t, ns, "web", 4) })
		e.kubectl(t, "taint", "node", "node-1", "test-")
		eventually(t, "back", func() error { return e.daemons(t, ns, "web", 5) })
		e.kubectl(t, "cordon", "node-1")
		e.kubectl(t, "-n", ns, "delete", "pod", "-l", "app=web", "--field-selector=spec.nodeName=node-1")
		eventually(t, "a cordoned node has its daemons", func() error { return e.daemons(t, ns, "web", 5) })
	})
	t.Run("a surge", func(t *testing.T) {
		e.kubectl(t, "-n", ns, "patch", "daemonset", "web", "--patch",
			`{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":0,"maxSurge":"50%"}},"template":{"spec":{"containers":[{"name":"c","image":"fake:3"}]}}}}`)
		e.kubectl(t, "-n", ns, "rollout", "status", "daemonset/web", "--timeout=2m")
		eventually(t, "the third template", func() error { return e.daemons(t, ns, "web", 5) })
	})
	t.Run("a quota", func(t *testing.T) { daemonsUnderQuota(t, e) })
	t.Run("orphans find their way back", func(t *testing.T) { orphanedDaemons(t, e, ns) })

	e.kubectl(t, "delete", "namespace", ns, "--timeout=2m")
	e.nothingLeft(t, ns)
}

func daemonsUnderQuota(t *testing.T, e *env) {
	tight := e.namespace(t, "tight")
	e.kubectl(t, "-n", tight, "create", "quota", "pods", "--hard=pods=2")
	// There is no quota controller, so the usage must be set for admission to enforce the quota.
	e.kubectl(t, "-n", tight, "patch", "resourcequota", "pods", "--subresource=status", "--type=merge", "--patch",
		`{"status":{"hard":{"pods":"2"},"used":{"pods":"0"}}}`)
	must(e.Client().AppsV1().DaemonSets(tight).Create(t.Context(), daemonSet("web", "1", "0", "1ms"), metav1.CreateOptions{}))(t)
	eventually(t, "as many as the quota allows", func() error {
		set := must(e.Client().AppsV1().DaemonSets(tight).Get(t.Context(), "web", metav1.GetOptions{}))(t)
		s := set.Status
		return errors.Join(differ("desired", s.DesiredNumberScheduled, 5), differ("current", s.CurrentNumberScheduled, 2),
			differ("available", s.NumberAvailable, 2), differ("unavailable", s.NumberUnavailable, 3), differ("generation", s.ObservedGeneration, set.Generation))
	})
	e.expect("Reconcile failed; trying again.*exceeded quota")
	e.kubectl(t, "-n", tight, "delete", "quota", "pods")
	eventually(t, "all of them", func() error { return e.daemons(t, tight, "web", 5) })
}

func orphanedDaemons(t *testing.T, e *env, ns string) {
	uids := func() (out []string) {
		for _, p := range must(e.pods(t, ns, "web"))(t) {
			out = append(out, string(p.UID))
		}
		return slices.Sorted(slices.Values(out))
	}
	before := uids()
	set := must(e.Client().AppsV1().DaemonSets(ns).Get(t.Context(), "web", metav1.GetOptions{}))(t)
	e.kubectl(t, "-n", ns, "delete", "daemonset", "web", "--cascade=orphan")
	again := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: set.Spec}
	must(e.Client().AppsV1().DaemonSets(ns).Create(t.Context(), again, metav1.CreateOptions{}))(t)
	eventually(t, "the pods are counted again", func() error { return e.daemons(t, ns, "web", 5) })
	if after := uids(); !same(before, after) {
		t.Errorf("pods were replaced: %v, before %v", after, before)
	}
}

// TestDaemonSetHandOver stops one controller manager in the middle of two updates, one that deletes old pods first and one
// with a surge, and lets the other finish them.
func TestDaemonSetHandOver(t *testing.T) {
	own(t, "changes the controller manager")
	for _, order := range [][2]cluster.ManagerKind{{cluster.Upstream, cluster.Orrery}, {cluster.Orrery, cluster.Upstream}} {
		t.Run(fmt.Sprintf("%s to %s", order[0], order[1]), func(t *testing.T) {
			t.Parallel()
			daemonSetHandOver(t, order[0], order[1])
		})
	}
}

func daemonSetHandOver(t *testing.T, from, to cluster.ManagerKind) {
	const nodes = 6
	e := start(t, cluster.Options{Nodes: nodes, Untaint: true, ControllerManager: from, CMArgs: append([]string{"-v=2"}, raised...)})
	if err := e.WaitUsable(timeout(t, 2*patience)); err != nil {
		t.Fatal(err)
	}
	ns := e.namespace(t, "daemons")
	names := []string{"taking", "adding"}
	for _, set := range []*appsv1.DaemonSet{daemonSet("taking", "2", "0", "1s"), daemonSet("adding", "0", "2", "1s")} {
		must(e.Client().AppsV1().DaemonSets(ns).Create(t.Context(), set, metav1.CreateOptions{}))(t)
	}
	all := func() error {
		return errors.Join(e.daemons(t, ns, names[0], nodes), e.daemons(t, ns, names[1], nodes))
	}
	eventually(t, "a pod on each node", all)
	for _, name := range names {
		e.kubectl(t, "-n", ns, "set", "image", "daemonset/"+name, "c=fake:2")
	}
	eventually(t, "updates are under way", func() error {
		for _, name := range names {
			if n := must(e.Client().AppsV1().DaemonSets(ns).Get(t.Context(), name, metav1.GetOptions{}))(t).Status.UpdatedNumberScheduled; n < 2 {
				return fmt.Errorf("%d updated pods of %s", n, name)
			}
		}
		return nil
	})
	e.stopManager(t)
	if all() == nil {
		t.Error("the updates were already over: nothing was handed over")
	}
	// Pods that are up to date now must not be touched any more.
	done, revisions := e.updatedDaemons(t, ns), e.controllerRevisions(t, ns)
	e.manage(t, to, raised...)
	eventually(t, "the updates end", all)
	final := e.updatedDaemons(t, ns)
	for uid, name := range done {
		if final[uid] == "" {
			t.Errorf("%s replaced pod %s, which was up to date", to, name)
		}
	}
	if got := e.controllerRevisions(t, ns); !same(got, revisions) || len(got) != 4 {
		t.Errorf("revisions are %v, want %v and no others", got, revisions)
	}
	e.settled(t, from, to)
	if got := e.updatedDaemons(t, ns); len(got) != 2*nodes || len(got) != len(final) {
		t.Errorf("%d pods are up to date, want %d", len(got), 2*nodes)
	}
}

// updatedDaemons returns the names of the pods of the second template by UID.
func (e *env) updatedDaemons(t *testing.T, namespace string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range must(e.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}))(t).Items {
		if p.DeletionTimestamp == nil && p.Spec.Containers[0].Image == "fake:2" && p.Status.Phase != corev1.PodFailed {
			out[string(p.UID)] = p.Name
		}
	}
	return out
}

func (e *env) controllerRevisions(t *testing.T, namespace string) (names []string) {
	t.Helper()
	for _, r := range must(e.Client().AppsV1().ControllerRevisions(namespace).List(t.Context(), metav1.ListOptions{}))(t).Items {
		names = append(names, fmt.Sprintf("%s=%d", r.Name, r.Revision))
	}
	return slices.Sorted(slices.Values(names))
}
