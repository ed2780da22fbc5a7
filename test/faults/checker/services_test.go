package checker

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func newService() *corev1.Service {
	return &corev1.Service{ObjectMeta: meta("web"), Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "web"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
}

// served makes a pod behind the Service that is not ready yet.
func served(name, ip string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta(name), Spec: corev1.PodSpec{NodeName: "node"}}
	p.Labels["app"] = "web"
	isReady(p, false)
	p.Status.PodIPs = []corev1.PodIP{{IP: ip}, {IP: "fd00::" + name}}
	return p
}

func slice(name string, s *corev1.Service, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	o := &discoveryv1.EndpointSlice{ObjectMeta: meta(name), AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints}
	o.Labels[discoveryv1.LabelManagedBy] = slicesBy
	o.Ports = []discoveryv1.EndpointPort{{Port: new(int32(8080))}}
	owned(o, s)
	return o
}

func of(p *corev1.Pod, isReady bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{p.Status.PodIPs[0].IP}, Conditions: discoveryv1.EndpointConditions{Ready: &isReady},
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: p.Name, UID: p.UID},
	}
}

func TestReadyAddresses(t *testing.T) {
	w := newWorld()
	s, a, b := newService(), served("a", "10.0.0.1"), served("b", "10.0.0.2")
	w.see(s, a, b, slice("one", s, of(a, false), of(b, false)))
	isReady(a, true)
	w.see(a)
	isReady(a, false)
	w.see(a, slice("one", s, of(a, true), of(b, false)))
	w.expect(t, "the pod was ready a moment ago")
	w.see(slice("one", s, of(a, true), of(b, true)))
	w.expect(t, "one that never was", "endpoint")

	w = newWorld()
	w.see(s, a)
	w.listed = true
	w.see(a)
	w.listed = false
	w.see(slice("one", s, of(a, true)))
	w.expect(t, "it may have been ready when nobody looked")
}

func TestSettledServices(t *testing.T) {
	s, a, b := newService(), served("a", "10.0.0.1"), served("b", "10.0.0.2")
	isReady(a, true)
	done := ended(served("done", "10.0.0.3"), corev1.PodSucceeded)
	other := &discoveryv1.EndpointSlice{ObjectMeta: meta("by-hand"), Endpoints: []discoveryv1.Endpoint{of(b, true)}}
	ports := slice("one", s, of(a, true), of(b, false))
	ports.Ports[0].Port = new(int32(81))
	for name, tc := range map[string]struct {
		slices []metav1.Object
		want   string
	}{
		"as it is to be":   {[]metav1.Object{slice("one", s, of(a, true)), slice("two", s, of(b, false)), other}, ""},
		"one is missing":   {[]metav1.Object{slice("one", s, of(a, true))}, "the address of b is missing"},
		"one is twice":     {[]metav1.Object{slice("one", s, of(a, true)), slice("two", s, of(a, true), of(b, false))}, "one too many"},
		"one has ended":    {[]metav1.Object{slice("one", s, of(a, true), of(b, false), of(done, false))}, "[10.0.0.3] of done"},
		"one is not ready": {[]metav1.Object{slice("one", s, of(a, true), of(b, true))}, "should be 10.0.0.2, ready false"},
		"other ports":      {[]metav1.Object{ports}, "the ports of one"},
	} {
		w := newWorld()
		w.see(s, a, b, done)
		w.see(tc.slices...)
		got := fmt.Sprint(w.c.unsettledServices())
		if tc.want == "" && got != "[]" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %s, want %q", name, got, tc.want)
		}
	}
}
