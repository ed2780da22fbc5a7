package layout

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestAnySequenceOfChanges checks after each of many random changes of pods, Service and slices that every expected
// endpoint is in exactly one slice, with its ports and state, and no other endpoint is; that no slice is larger than
// allowed; that no slice is written without need; and that a second pass writes nothing.
func TestAnySequenceOfChanges(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t, 1+rnd.IntN(7), func(s *corev1.Service) {
				s.Spec.Ports[0].TargetPort = intstr.FromString("web")
			})
			pods := map[int]*corev1.Pod{}
			for step := range 60 {
				disturb(rnd, w, pods)
				list := shuffled(rnd, pods)
				hint := anyHint(rnd)
				p := w.step(list, hint)
				check(t, w, list, p, step)
				if again := w.step(shuffled(rnd, pods), hint); again.Changes() != 0 {
					t.Fatalf("step %d: a second look changes %d slices", step, again.Changes())
				}
			}
		})
	}
}

// disturb makes a few random changes.
func disturb(rnd *rand.Rand, w *world, pods map[int]*corev1.Pod) {
	for range 1 + rnd.IntN(8) {
		n := rnd.IntN(30)
		switch kind := rnd.IntN(14); {
		case kind < 4 || pods[n] == nil && kind < 9:
			pods[n] = anyPod(rnd, n)
		case kind < 7:
			delete(pods, n)
		case kind < 9:
			next := pods[n].DeepCopy()
			anyState(rnd, next)
			pods[n] = next
		case kind == 9:
			w.svc = w.svc.DeepCopy()
			w.svc.Spec.PublishNotReadyAddresses = !w.svc.Spec.PublishNotReadyAddresses
		case kind == 10:
			w.svc = w.svc.DeepCopy()
			w.svc.Labels = map[string]string{"v": fmt.Sprint(rnd.IntN(3))}
		case len(w.slices) > 0:
			vandalise(rnd, w)
		}
	}
}

// vandalise changes a slice as another writer might.
func vandalise(rnd *rand.Rand, w *world) {
	i := rnd.IntN(len(w.slices))
	s := w.slices[i].DeepCopy()
	w.slices[i] = s
	switch at := rnd.IntN(max(1, len(s.Endpoints))); rnd.IntN(5) {
	case 0:
		w.slices = slices.Delete(w.slices, i, i+1)
	case 1:
		s.Ports = nil
	case 2:
		if len(s.Endpoints) > 0 {
			s.Endpoints = slices.Delete(s.Endpoints, at, at+1)
		}
	case 3:
		if len(s.Endpoints) > 0 {
			s.Endpoints[at].Addresses[0] = "9.9.9.9"
		}
	case 4:
		s.OwnerReferences[0].UID = "someone"
	}
}

func anyPod(rnd *rand.Rand, n int) *corev1.Pod {
	p := pod(n, onNode(fmt.Sprintf("node-%d", rnd.IntN(3))))
	p.UID += "x"
	if rnd.IntN(3) > 0 {
		p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{
			{Name: "web", Protocol: corev1.ProtocolTCP, ContainerPort: 8080 + rnd.Int32N(2)},
		}}}
	}
	anyState(rnd, p)
	return p
}

func anyState(rnd *rand.Rand, p *corev1.Pod) {
	p.Status.Conditions[0].Status = []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}[rnd.IntN(2)]
	switch rnd.IntN(8) {
	case 0:
		terminating(p)
	case 1:
		p.Status.Phase = corev1.PodFailed
	case 2:
		p.Status.PodIP, p.Status.PodIPs = "", nil
	case 3:
		p.Spec.NodeName = "gone"
	case 4:
		p.Spec.NodeName = "bare"
	}
}

func anyHint(rnd *rand.Rand) func(*Plan) {
	return []func(*Plan){
		func(p *Plan) { p.Strip() },
		func(p *Plan) { p.Prefer(false) },
		func(p *Plan) { p.Prefer(true) },
		func(p *Plan) { p.Spread(Shares{"zone-0": 0.5, "zone-1": 0.3, "zone-2": 0.2}) },
	}[rnd.IntN(4)]
}

func shuffled(rnd *rand.Rand, pods map[int]*corev1.Pod) []*corev1.Pod {
	list := slices.Collect(maps.Values(pods))
	rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func check(t *testing.T, w *world, pods []*corev1.Pod, p *Plan, step int) {
	t.Helper()
	want, got := map[string]int{}, map[string]int{}
	for _, pod := range pods {
		if text := wanted(w.svc, pod); text != "" {
			want[text]++
		}
	}
	for _, s := range w.slices {
		if len(s.Endpoints) > w.max {
			t.Fatalf("step %d: slice %s has %d endpoints, at most %d are allowed", step, s.Name, len(s.Endpoints), w.max)
		}
		if len(s.Endpoints) == 0 && len(w.slices) > 1 {
			t.Fatalf("step %d: slice %s is empty and not the only one", step, s.Name)
		}
		for _, e := range s.Endpoints {
			got[said(s, e)]++
		}
	}
	if !maps.Equal(got, want) {
		t.Fatalf("step %d: listed %v\nwant %v", step, got, want)
	}
	if len(w.slices) == 0 {
		t.Fatalf("step %d: no slice at all", step)
	}
	names := map[string]int{}
	for _, s := range slices.Concat(p.Create, p.Update, p.Delete, p.Unchanged) {
		if names[s.Name]++; names[s.Name] > 1 {
			t.Fatalf("step %d: slice %s is dealt with twice", step, s.Name)
		}
	}
}

// wanted returns the endpoint that a pod should have, formatted, or "" for none. It is written from the rules, independently
// of the code.
func wanted(svc *corev1.Service, p *corev1.Pod) string {
	gone := p.Spec.NodeName == "gone"
	if p.Status.Phase == corev1.PodFailed || len(p.Status.PodIPs) == 0 || gone && !svc.Spec.PublishNotReadyAddresses {
		return ""
	}
	port := int32(0)
	if len(p.Spec.Containers) > 0 {
		port = p.Spec.Containers[0].Ports[0].ContainerPort
	}
	zone, _ := zoneOf(p.Spec.NodeName)
	serving := p.Status.Conditions[0].Status == corev1.ConditionTrue
	ending := p.DeletionTimestamp != nil
	ready := serving && !ending || svc.Spec.PublishNotReadyAddresses
	return fmt.Sprint(p.Name, p.UID, p.Status.PodIPs[0].IP, p.Spec.NodeName, zone, port, ready, serving, ending, svc.Labels)
}

func said(s *discoveryv1.EndpointSlice, e discoveryv1.Endpoint) string {
	port := int32(0)
	if len(s.Ports) > 0 {
		port = *s.Ports[0].Port
	}
	labels := maps.Clone(s.Labels)
	delete(labels, discoveryv1.LabelServiceName)
	delete(labels, discoveryv1.LabelManagedBy)
	return fmt.Sprint(e.TargetRef.Name, e.TargetRef.UID, e.Addresses[0], deref(e.NodeName), deref(e.Zone), port,
		*e.Conditions.Ready, *e.Conditions.Serving, *e.Conditions.Terminating, labels)
}

func BenchmarkOnePodOfFiftyFlips(b *testing.B) {
	benchmark(b, 50, 1)
}

func BenchmarkOnePodOfFiveThousandFlips(b *testing.B) {
	benchmark(b, 5000, 1)
}

func BenchmarkNothingOfFiftyChanges(b *testing.B) {
	benchmark(b, 50, 0)
}

func benchmark(b *testing.B, n, flips int) {
	svc, pods := service(), podRange(0, n)
	p := Pack(Input{Service: svc, Family: discoveryv1.AddressTypeIPv4, Pods: pods, Zone: zoneOf, Max: 100})
	for i, s := range p.Create {
		s.Name = fmt.Sprint("web-", i)
	}
	have := p.Create
	if flips > 0 {
		pods[n/2] = pod(n/2, unready)
	}
	b.ReportAllocs()
	for b.Loop() {
		p := Pack(Input{Service: svc, Family: discoveryv1.AddressTypeIPv4, Pods: pods, Existing: have, Zone: zoneOf, Max: 100})
		p.Strip()
		p.Reuse()
		if p.Changes() != flips {
			b.Fatalf("%d changes, want %d", p.Changes(), flips)
		}
	}
}
