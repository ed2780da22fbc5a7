package daemonset

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/internal/podctl"
	"orrery/kit/kittest"
)

// TestNoNodeHasTwoDaemons subjects a DaemonSet to random events: its pods start, fail and stop, its template and its nodes
// change, watches lag and break, calls are rejected or their responses are lost, and the controller is killed. At no time
// may a node have more pods than the strategy allows, and in the end everything must be as it should be.
func TestNoNodeHasTwoDaemons(t *testing.T) {
	for seed := range uint64(6) {
		for name, opt := range map[string]setOption{"replacing": rolling("2", ""), "surging": rolling("0", "2")} {
			t.Run(fmt.Sprintf("%s %d", name, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 7)), surging: name == "surging"}
					w.api = kittest.New(t, append(newNodes(5), newSet("web", opt))...)
					w.api.React(w.meddle)
					w.running = w.api.Run(t, Descriptor())
					for range 300 {
						w.turn()
						w.api.Pass(time.Duration(w.rand.IntN(400)) * time.Millisecond)
						w.check("")
					}
					w.end()
				})
			})
		}
	}
}

type world struct {
	t       *testing.T
	api     *kittest.API
	rand    *rand.Rand
	running *kittest.Running
	surging bool

	mu     sync.Mutex // guards faults
	faults []*kittest.Reaction
}

// turn causes one random event.
func (w *world) turn() {
	switch n := w.rand.IntN(100); {
	case n < 60:
		w.kubelet()
	case n < 66:
		w.changeNode()
	case n < 70:
		change(w.t, w.api, "web", image(fmt.Sprintf("img:%d", w.rand.IntN(4))))
	case n < 74:
		if all := pods(w.t, w.api); len(all) > 0 {
			w.api.Delete(w.t, all[w.rand.IntN(len(all))])
		}
	case n < 84:
		w.disturbWatch()
	case n < 96:
		w.disturbCalls()
	default:
		w.kill()
	}
}

// kubelet does something with one pod.
func (w *world) kubelet() {
	all := pods(w.t, w.api)
	if len(all) == 0 {
		return
	}
	switch pod := all[w.rand.IntN(len(all))]; {
	case pod.DeletionTimestamp != nil:
		w.api.Remove(w.t, pod)
	case podctl.Finished(pod):
	case w.rand.IntN(20) == 0 && pod.Spec.NodeName != "":
		changePod(w.t, w.api, pod, ended([]corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded}[w.rand.IntN(2)]))
	case !podctl.Ready(pod) && w.api.Get(w.t, newNode(nodeOf(pod))):
		changePod(w.t, w.api, pod, func(p *corev1.Pod) { run(p, time.Now()) })
	}
}

func (w *world) changeNode() {
	name := fmt.Sprintf("n%02d", w.rand.IntN(6))
	node := newNode(name)
	switch exists := w.api.Get(w.t, node); {
	case !exists:
		w.api.Create(w.t, newNode(name))
	case w.rand.IntN(4) == 0:
		w.api.Remove(w.t, node)
		w.collect()
	case len(node.Spec.Taints) > 0:
		node.Spec.Taints = nil
		w.api.Update(w.t, node)
	default:
		effect := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute}[w.rand.IntN(2)]
		node.Spec.Taints = []corev1.Taint{taint("x", effect)}
		w.api.Update(w.t, node)
	}
}

// collect removes the pods of missing nodes, as the pod garbage collector does.
func (w *world) collect() {
	for _, p := range pods(w.t, w.api) {
		if p.Spec.NodeName != "" && !w.api.Get(w.t, newNode(p.Spec.NodeName)) {
			w.api.Remove(w.t, p)
		}
	}
}

func (w *world) disturbWatch() {
	which := podKind
	if w.rand.IntN(4) == 0 {
		which = kind
	}
	switch w.rand.IntN(4) {
	case 0:
		w.api.BreakWatch(which)
	case 1:
		w.api.Compact(which)
	default:
		w.api.DelayWatch(which, time.Duration(w.rand.IntN(3)*w.rand.IntN(8000))*time.Millisecond)
	}
}

func (w *world) disturbCalls() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range 1 + w.rand.IntN(4) {
		w.faults = append(w.faults, []*kittest.Reaction{
			nil, {Drop: true}, {Drop: true}, {Err: errors.New("connection reset")}, kittest.Refuse(http.StatusConflict, "conflict"),
			kittest.Refuse(http.StatusInternalServerError, "sick"), kittest.Refuse(http.StatusGatewayTimeout, "late"),
			kittest.Refuse(http.StatusForbidden, "quota"),
		}[w.rand.IntN(8)])
	}
}

// meddle makes some writes fail or appear to fail, and checks each new pod.
func (w *world) meddle(r *kittest.Request) *kittest.Reaction {
	if r.User != Name || slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
		return nil
	}
	if r.Verb == "create" && r.Resource.Resource == "pods" {
		w.check("when another is to be made")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.faults) == 0 {
		return nil
	}
	next := w.faults[0]
	w.faults = w.faults[1:]
	return next
}

// kill stops the controller, and starts another one with empty caches.
func (w *world) kill() {
	w.running.Stop()
	w.api.Pass(time.Duration(w.rand.IntN(3000)) * time.Millisecond)
	w.api.Compact(podKind)
	w.api.Compact(kind)
	w.api.Pass(70 * time.Second) // longer than a watch that has failed waits before it lists again
	w.running = w.api.Run(w.t, Descriptor())
}

// check verifies the invariants.
func (w *world) check(when string) {
	w.t.Helper()
	on := map[string][]string{}
	for _, p := range kittest.List[corev1.Pod](w.t, w.api, "") {
		switch {
		case p.DeletionTimestamp != nil && (w.surging || podctl.Finished(p)), w.surging && podctl.Finished(p):
		default:
			on[nodeOf(p)] = append(on[nodeOf(p)], p.Labels[hashLabel])
		}
	}
	for node, hashes := range on {
		most := 1
		if w.surging {
			most = 2
		}
		slices.Sort(hashes)
		if len(hashes) > most || len(slices.Compact(slices.Clone(hashes))) != len(hashes) {
			w.t.Errorf("%s: %s has pods %v %s", time.Now().Format("04:05.000"), node, hashes, when)
		}
	}
}

// end stops the disturbances, and waits until everything has settled.
func (w *world) end() {
	w.api.Unreact()
	w.api.DelayWatch(podKind, 0)
	w.api.DelayWatch(kind, 0)
	for range 40 {
		w.collect() // a controller that is behind may have made one after its node went
		kubelets(w.t, w.api)
		w.api.Pass(30 * time.Second)
	}
	set, nodes := get(w.t, w.api, "web"), kittest.List[corev1.Node](w.t, w.api, "")
	where := newPlacement(&set.Spec.Template.Spec, false)
	var want counts
	for _, node := range nodes {
		if where.judge(node).run {
			want.desired++
			if p := podOn(w.t, w.api, node.Name); p.Spec.Containers[0].Image != set.Spec.Template.Spec.Containers[0].Image {
				w.t.Errorf("%s runs %s", node.Name, p.Spec.Containers[0].Image)
			}
		}
	}
	want.current, want.ready, want.updated, want.available = want.desired, want.desired, want.desired, want.desired
	want.misscheduled = set.Status.NumberMisscheduled
	wantStatus(w.t, w.api, "web", want)
	if n := int32(len(pods(w.t, w.api))); n != want.desired+want.misscheduled {
		w.t.Errorf("%d pods for %+v", n, want)
	}
	current := 0
	for _, r := range kittest.List[appsv1.ControllerRevision](w.t, w.api, "") {
		if metav1.IsControlledBy(r, set) && r.Revision > 0 {
			current++
		}
	}
	if current > 4 {
		w.t.Errorf("%d revisions of four templates", current)
	}
}
