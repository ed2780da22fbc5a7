package layout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// service returns the Service default/web with port http, reached at 8080.
func service(change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "svc-1", Labels: map[string]string{"team": "a"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.0.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

// pod returns a ready pod on node-0 whose name and address carry the number.
func pod(n int, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%04d", n), Namespace: "default", UID: types.UID(fmt.Sprintf("uid-%d", n))},
		Spec:       corev1.PodSpec{NodeName: "node-0"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			PodIPs:     []corev1.PodIP{{IP: fmt.Sprintf("10.1.%d.%d", n/250, n%250+1)}, {IP: fmt.Sprintf("fd00::%x", n+1)}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	p.Status.PodIP = p.Status.PodIPs[0].IP
	for _, f := range change {
		f(p)
	}
	return p
}

func podRange(from, to int, change ...func(*corev1.Pod)) []*corev1.Pod {
	var out []*corev1.Pod
	for n := from; n < to; n++ {
		out = append(out, pod(n, change...))
	}
	return out
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
func terminating(p *corev1.Pod) {
	now := metav1.Now()
	p.DeletionTimestamp = &now
}

func onNode(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = name } }

// zoneOf knows node-0 to node-9 in zones zone-0 to zone-9, and a node called bare that has none.
func zoneOf(node string) (string, bool) {
	if node == "bare" {
		return "", true
	}
	n, ok := strings.CutPrefix(node, "node-")
	if !ok || len(n) != 1 {
		return "", false
	}
	return "zone-" + n, true
}

// world is what the API server would hold: the slices of one Service, by family.
type world struct {
	t      *testing.T
	svc    *corev1.Service
	max    int
	slices []*discoveryv1.EndpointSlice
	made   int
}

func newWorld(t *testing.T, max int, change ...func(*corev1.Service)) *world {
	return &world{t: t, svc: service(change...), max: max}
}

func (w *world) pack(pods []*corev1.Pod) *Plan {
	w.t.Helper()
	return Pack(Input{
		Service: w.svc, Family: discoveryv1.AddressTypeIPv4, Pods: pods, Existing: w.slices, Zone: zoneOf, Max: w.max,
	})
}

// step makes a plan, adds hints with hint, carries the plan out and returns it.
func (w *world) step(pods []*corev1.Pod, hint ...func(*Plan)) *Plan {
	w.t.Helper()
	before := snapshot(w.slices)
	p := w.pack(pods)
	if len(hint) == 0 {
		p.Strip()
	}
	for _, f := range hint {
		f(p)
	}
	p.Reuse()
	if after := snapshot(w.slices); after != before {
		w.t.Fatalf("the plan changed its input:\n%s\nbefore:\n%s", after, before)
	}
	w.apply(p)
	return p
}

func (w *world) apply(p *Plan) {
	w.t.Helper()
	for _, s := range p.Delete {
		w.slices = slices.DeleteFunc(w.slices, func(o *discoveryv1.EndpointSlice) bool { return o.Name == s.Name })
	}
	for _, s := range p.Update {
		i := slices.IndexFunc(w.slices, func(o *discoveryv1.EndpointSlice) bool { return o.Name == s.Name })
		if i < 0 {
			w.t.Fatalf("update of %s, which does not exist", s.Name)
		}
		w.slices[i] = s
	}
	for _, s := range p.Create {
		if s.Name != "" {
			w.t.Fatalf("a slice to create has the name %s", s.Name)
		}
		w.made++
		s.Name = fmt.Sprintf("%s%03d", s.GenerateName, w.made)
		w.slices = append(w.slices, s)
	}
}

// fill starts the world with slices of these sizes, listing pods from 0 on.
func (w *world) fill(sizes ...int) (pods []*corev1.Pod) {
	w.t.Helper()
	next := 0
	for _, n := range sizes {
		part := podRange(next, next+n)
		p := Pack(Input{Service: w.svc, Family: discoveryv1.AddressTypeIPv4, Pods: part, Zone: zoneOf, Max: max(n, 1)})
		w.apply(p)
		pods = append(pods, part...)
		next += n
	}
	return pods
}

func (w *world) sizes() []int {
	var out []int
	for _, s := range w.slices {
		out = append(out, len(s.Endpoints))
	}
	return out
}

// snapshot formats slices, to compare them as a whole.
func snapshot(list []*discoveryv1.EndpointSlice) string {
	var b strings.Builder
	for _, s := range list {
		raw, err := s.Marshal()
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, "%s %x\n", s.Name, raw)
	}
	return b.String()
}
