package daemonset

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"orrery/controllers/internal/podctl"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

var (
	podKind = corev1.SchemeGroupVersion.WithKind("Pod")
)

type setOption func(*appsv1.DaemonSet)

// newSet returns a DaemonSet with the server's defaults.
func newSet(name string, opts ...setOption) *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "1"},
		},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "img:1"}}},
			},
			RevisionHistoryLimit: new(int32(10)),
		},
	}
	rolling("1", "")(set)
	for _, o := range opts {
		o(set)
	}
	return set
}

// rolling sets the bounds of a rolling update; an empty one is left out.
func rolling(unavailable, surge string) setOption {
	return func(set *appsv1.DaemonSet) {
		r := &appsv1.RollingUpdateDaemonSet{}
		if unavailable != "" {
			r.MaxUnavailable = new(intstr.Parse(unavailable))
		}
		if surge != "" {
			r.MaxSurge = new(intstr.Parse(surge))
		}
		set.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: r}
	}
}

func onDelete(set *appsv1.DaemonSet) {
	set.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
}

func minReady(seconds int32) setOption {
	return func(set *appsv1.DaemonSet) { set.Spec.MinReadySeconds = seconds }
}

// image changes the template, and increments its generation as the server does.
func image(name string) setOption {
	return func(set *appsv1.DaemonSet) {
		set.Spec.Template.Spec.Containers[0].Image = name
		var n int
		_, _ = fmt.Sscan(set.Annotations[appsv1.DeprecatedTemplateGeneration], &n)
		set.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: fmt.Sprint(n + 1)}
	}
}

func newNode(name string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Spec:       corev1.NodeSpec{Taints: taints},
	}
}

func taint(key string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Effect: effect}
}

// newNodes returns the nodes n00 to n<n-1>.
func newNodes(n int) (out []client.Object) {
	for i := range n {
		out = append(out, newNode(fmt.Sprintf("n%02d", i)))
	}
	return out
}

// start runs the controller over some objects, without kubelets, until it has nothing more to do.
func start(t *testing.T, objs ...client.Object) *kittest.API {
	t.Helper()
	api := kittest.New(t, objs...)
	api.Run(t, Descriptor())
	api.Settle()
	return api
}

func pods(t *testing.T, api *kittest.API) []*corev1.Pod {
	t.Helper()
	return kittest.List[corev1.Pod](t, api, "")
}

func revisions(t *testing.T, api *kittest.API) []*appsv1.ControllerRevision {
	t.Helper()
	return kittest.List[appsv1.ControllerRevision](t, api, "")
}

func get(t *testing.T, api *kittest.API, name string) *appsv1.DaemonSet {
	t.Helper()
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if !api.Get(t, set) {
		t.Fatalf("DaemonSet %s is gone", name)
	}
	return set
}

// change stores a DaemonSet after a change.
func change(t *testing.T, api *kittest.API, name string, opts ...setOption) {
	t.Helper()
	set := get(t, api, name)
	for _, o := range opts {
		o(set)
	}
	api.Update(t, set)
}

func changeNode(t *testing.T, api *kittest.API, name string, f func(*corev1.Node)) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !api.Get(t, node) {
		t.Fatalf("node %s is gone", name)
	}
	f(node)
	api.Update(t, node)
}

func changePod(t *testing.T, api *kittest.API, pod *corev1.Pod, f func(*corev1.Pod)) {
	t.Helper()
	if !api.Get(t, pod) {
		t.Fatalf("pod %s is gone", pod.Name)
	}
	f(pod)
	api.Update(t, pod)
}

// kubelets does what a scheduler and kubelets do with the existing pods: bind, run and stop them.
func kubelets(t *testing.T, api *kittest.API, but ...string) {
	t.Helper()
	for _, pod := range pods(t, api) {
		switch node := nodeOf(pod); {
		case slices.Contains(but, node):
		case pod.DeletionTimestamp != nil:
			api.Remove(t, pod)
		case !podctl.Ready(pod) && !podctl.Finished(pod):
			changePod(t, api, pod, func(p *corev1.Pod) { run(p, time.Now()) })
		}
	}
}

// run makes a pod run on its node, ready since a moment.
func run(p *corev1.Pod, since time.Time) {
	p.Spec.NodeName = nodeOf(p)
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since)}}
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func ended(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		run(p, time.Now())
		unready(p)
		p.Status.Phase = phase
	}
}

// rolledOut runs the kubelets until there is nothing left to do, and returns how many rounds that took.
func rolledOut(t *testing.T, api *kittest.API, check func()) int {
	t.Helper()
	for round := range 200 {
		before := len(api.Writes())
		kubelets(t, api)
		api.Settle()
		if check != nil {
			check()
		}
		if len(api.Writes()) == before {
			return round
		}
	}
	t.Fatal("the rollout never ends")
	return 0
}

// byNode returns "node: image image" for each node that has pods, sorted. Pods that are being deleted have a minus.
func byNode(t *testing.T, api *kittest.API) string {
	t.Helper()
	on := map[string][]string{}
	for _, pod := range pods(t, api) {
		what := pod.Spec.Containers[0].Image
		if pod.DeletionTimestamp != nil {
			what = "-" + what
		}
		on[nodeOf(pod)] = append(on[nodeOf(pod)], what)
	}
	var out []string
	for node, images := range on {
		slices.Sort(images)
		out = append(out, node+": "+strings.Join(images, " "))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func podOn(t *testing.T, api *kittest.API, node string) *corev1.Pod {
	t.Helper()
	for _, pod := range pods(t, api) {
		if nodeOf(pod) == node && pod.DeletionTimestamp == nil {
			return pod
		}
	}
	t.Fatalf("no pod on %s", node)
	return nil
}

// counts of a status, in the order in which kubectl prints them.
type counts struct {
	desired, current, ready, updated, available, unavailable, misscheduled int32
}

func statusOf(set *appsv1.DaemonSet) counts {
	s := set.Status
	return counts{
		s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberReady, s.UpdatedNumberScheduled, s.NumberAvailable,
		s.NumberUnavailable, s.NumberMisscheduled,
	}
}

func wantStatus(t *testing.T, api *kittest.API, name string, want counts) {
	t.Helper()
	set := get(t, api, name)
	if got := statusOf(set); got != want {
		t.Errorf("status of %s %+v, want %+v", name, got, want)
	}
	if set.Status.ObservedGeneration != set.Generation {
		t.Errorf("generation %d of %s is observed, want %d", set.Status.ObservedGeneration, name, set.Generation)
	}
}

func events(api *kittest.API, reason string) []kittest.Event {
	return slices.DeleteFunc(api.Events(), func(e kittest.Event) bool { return e.Reason != reason })
}

func count(writes []string, prefix string) int {
	n := 0
	for _, w := range writes {
		if strings.HasPrefix(w, prefix) {
			n++
		}
	}
	return n
}

// tally counts calls, which come from many goroutines at once.
type tally struct {
	mu sync.Mutex // guards n
	n  map[string]int
}

func newTally() *tally { return &tally{n: map[string]int{}} }

func (c *tally) add(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[what]++
	return c.n[what]
}

func (c *tally) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[what]
}

func (c *tally) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.n)
}
