package daemonset

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit"
	"orrery/kit/kittest"
)

// daemons returns n nodes, and a pod of a DaemonSet on each.
func daemons(set *appsv1.DaemonSet, n int) (nodes []*corev1.Node, pods []*corev1.Pod) {
	model := templateID{hash: "new"}.newPod(set)
	for i := range n {
		node := newNode(fmt.Sprintf("node-%04d", i))
		node.Labels["zone"], node.Labels["os"] = fmt.Sprint(i%3), "linux"
		nodes = append(nodes, node)
		pod := pinned(model, node.Name)
		pod.Name = fmt.Sprintf("%s-%04d", set.Name, i)
		run(pod, noon)
		pods = append(pods, pod)
	}
	return nodes, pods
}

func selective(set *appsv1.DaemonSet) {
	set.Spec.Template.Spec.NodeSelector = map[string]string{"os": "linux"}
	set.Spec.Template.Spec.Affinity = requires(label("zone", corev1.NodeSelectorOpIn, "0", "1", "2"))
}

// The decisions of a reconcile without changes; reading from the cache is not measured.
func BenchmarkALookAtFiveThousandNodes(b *testing.B) {
	for name, opts := range map[string][]setOption{"everywhere": nil, "selective": {selective}, "surging": {rolling("0", "1")}} {
		b.Run(name, func(b *testing.B) {
			set := newSet("web", opts...)
			nodes, pods := daemons(set, 5000)
			where := newPlacement(&set.Spec.Template.Spec, false)
			b.ReportAllocs()
			for b.Loop() {
				v := newView(set, where, nodes, pods, templateID{hash: "new"}, noon)
				due := manage(v, func(string) time.Duration { return 0 })
				next, err := roll(v)
				if s := v.status(); err != nil || s.NumberReady != 5000 || len(due.create)+len(due.remove)+len(next.create)+len(next.remove) > 0 {
					b.Fatal(s, err)
				}
				v.nextAvailable()
			}
		})
	}
}

// Every DaemonSet is checked against each change of a node.
func BenchmarkANodeAmongAThousandDaemonSets(b *testing.B) {
	var all []*placement
	for range 1000 {
		all = append(all, newPlacement(&newSet("web", selective).Spec.Template.Spec, false))
	}
	old, now := newNode("n"), newNode("n")
	old.Labels["os"], now.Labels["os"] = "linux", "plan9"
	b.ReportAllocs()
	for b.Loop() {
		for _, p := range all {
			if p.verdictOn(old) != p.verdictOn(now) {
				b.Fatal("the node is wanted in no zone")
			}
		}
	}
}

// Each change of a pod causes a reconcile. It may allocate a slice or two, but nothing per node.
func TestALookAtManyNodesAllocatesNothingPerNode(t *testing.T) {
	small, large := allocations(t, 10), allocations(t, 3000)
	if large > small+60 {
		t.Errorf("%v allocations for 10 nodes, %v for 3000", small, large)
	}
}

func allocations(t *testing.T, n int) (perLook float64) {
	synctest.Test(t, func(t *testing.T) {
		set := newSet("web")
		api := kittest.New(t, set)
		nodes, pods := daemons(set, n)
		for i := range nodes {
			api.Create(t, nodes[i])
			pods[i].OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, kind)}
			pods[i].Labels[generationLabel] = "1"
			api.Create(t, pods[i])
		}
		var r *reconciler
		api.RunIn(t, api.Context(Name, rules()...), func(cc kit.ControllerContext) (bool, error) {
			r = newReconciler(cc)
			return true, r.complete(cc, 1, nil)
		})
		api.Settle()
		if now := get(t, api, "web"); int(now.Status.NumberReady) != n || now.Status.UpdatedNumberScheduled != int32(n) {
			t.Fatalf("the set is not settled: %+v", now.Status)
		}
		api.TakeWrites()
		perLook = testing.AllocsPerRun(5, func() {
			if _, err := r.Reconcile(t.Context(), kit.KeyOf(set)); err != nil {
				t.Error(err)
			}
		})
		api.Expect(t)
	})
	return perLook
}
