package replicaset

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/client"
	"orrery/kit/kittest"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")
var setKind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

type setOption func(*appsv1.ReplicaSet)

// newSet returns a ReplicaSet with the server's defaults.
func newSet(name string, replicas int32, opts ...setOption) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name, "tier": "front"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "img"}}},
			},
		},
	}
	for _, o := range opts {
		o(rs)
	}
	return rs
}

func minReady(seconds int32) setOption {
	return func(rs *appsv1.ReplicaSet) { rs.Spec.MinReadySeconds = seconds }
}

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

// get reads a ReplicaSet of the default namespace.
func get(t *testing.T, api *kittest.API, name string) *appsv1.ReplicaSet {
	t.Helper()
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if !api.Get(t, rs) {
		t.Fatalf("ReplicaSet %s is gone", name)
	}
	return rs
}

func scale(t *testing.T, api *kittest.API, name string, replicas int32) {
	t.Helper()
	rs := get(t, api, name)
	rs.Spec.Replicas = &replicas
	api.Update(t, rs)
}

// changePod stores a pod after a change.
func changePod(t *testing.T, api *kittest.API, pod *corev1.Pod, change func(*corev1.Pod)) {
	t.Helper()
	if !api.Get(t, pod) {
		t.Fatalf("pod %s is gone", pod.Name)
	}
	change(pod)
	api.Update(t, pod)
}

// ready makes a pod run on a node, ready since a moment.
func ready(since time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeName = "node"
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since)}}
	}
}

// orphan returns a pod without a controller.
func orphan(name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "img"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func ownerOf(p *corev1.Pod) string {
	if ref := metav1.GetControllerOf(p); ref != nil {
		return ref.Kind + " " + ref.Name
	}
	return ""
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

func events(api *kittest.API, reason string) []kittest.Event {
	return slices.DeleteFunc(api.Events(), func(e kittest.Event) bool { return e.Reason != reason })
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

// countCalls counts the calls with a verb for a resource, by name; creates under "".
func countCalls(api *kittest.API, verb, resource string) *tally {
	c := newTally()
	api.React(func(r *kittest.Request) *kittest.Reaction {
		if r.Verb == verb && r.Resource.Resource == resource {
			c.add(r.Name)
		}
		return nil
	})
	return c
}
