package endpointslice

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"orrery/kit/kittest"
)

func service(name string, change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.0.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

func dual(s *corev1.Service) {
	s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
}

// pod returns a ready pod on node n1 that Service app selects.
func pod(app, name, ip string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}},
		},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func without(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = "", nil }

func setReady(p *corev1.Pod, status corev1.ConditionStatus) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Now()}}
}

func node(name, zone string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: *oneCPU()},
		},
	}
}

// run starts the controller at default flags.
func run(t *testing.T, api *kittest.API) { api.Run(t, Descriptor()) }

// repair waits for the time after which changed slices are repaired, and for everything that follows.
func repair(api *kittest.API) {
	time.Sleep(repairDelay + time.Millisecond)
	api.Settle()
}

// show lists the endpoints of all slices of a Service, in order: "IPv4 10.1.0.1 r-s- default/pod ...", where r, s and t
// stand for ready, serving and terminating.
func show(t *testing.T, api *kittest.API, svc string) string {
	t.Helper()
	var out []string
	for _, s := range slicesOf(t, api, svc) {
		if len(s.Endpoints) == 0 {
			out = append(out, fmt.Sprintf("%s empty", s.AddressType))
		}
		for _, e := range s.Endpoints {
			flags := ""
			for _, f := range []struct {
				on   *bool
				text string
			}{{e.Conditions.Ready, "r"}, {e.Conditions.Serving, "s"}, {e.Conditions.Terminating, "t"}} {
				if *f.on {
					flags += f.text
				}
			}
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", s.AddressType, strings.Join(e.Addresses, ","), e.TargetRef.Name, flags)))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

func slicesOf(t *testing.T, api *kittest.API, svc string) []*discoveryv1.EndpointSlice {
	t.Helper()
	return slices.DeleteFunc(kittest.List[discoveryv1.EndpointSlice](t, api, "default"), func(s *discoveryv1.EndpointSlice) bool {
		return s.Labels[discoveryv1.LabelServiceName] != svc || s.Labels[discoveryv1.LabelManagedBy] != "endpointslice-controller.k8s.io"
	})
}

func expect(t *testing.T, api *kittest.API, svc, want string) {
	t.Helper()
	if got := show(t, api, svc); got != want {
		t.Errorf("slices of %s:\n\t%s\nwant:\n\t%s", svc, got, want)
	}
}

// verbs counts the writes since the last call by verb and resource.
func verbs(api *kittest.API) string {
	count := map[string]int{}
	for _, w := range api.TakeWrites() {
		verb, _, _ := strings.Cut(w, " ")
		count[verb]++
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(count)) {
		out = append(out, fmt.Sprintf("%s %d", k, count[k]))
	}
	return strings.Join(out, ", ")
}
