package layout

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func without(pods []*corev1.Pod, numbers ...int) []*corev1.Pod {
	var out []*corev1.Pod
	for n, p := range pods {
		if !slices.Contains(numbers, n) {
			out = append(out, p)
		}
	}
	return out
}

func TestPackingChangesFewSlices(t *testing.T) {
	for _, c := range []struct {
		name    string
		max     int
		sizes   []int
		next    func(pods []*corev1.Pod) []*corev1.Pod
		c, u, d int
		want    []int
	}{
		{"nothing to do", 100, []int{100, 40}, func(p []*corev1.Pod) []*corev1.Pod { return p }, 0, 0, 0, []int{100, 40}},
		{"first endpoints", 100, nil, func([]*corev1.Pod) []*corev1.Pod { return podRange(0, 250) }, 3, 0, 0, []int{100, 100, 50}},
		{"one more fits the one with room", 100, []int{100, 40}, func(p []*corev1.Pod) []*corev1.Pod { return append(p, pod(900)) }, 0, 1, 0, []int{100, 41}},
		{"the best fit is taken, not the emptiest", 100, []int{60, 80, 20}, func(p []*corev1.Pod) []*corev1.Pod { return append(p, podRange(900, 915)...) }, 0, 1, 0, []int{60, 95, 20}},
		{"untouched slices are not filled in part", 100, []int{95, 90}, func(p []*corev1.Pod) []*corev1.Pod { return append(p, podRange(900, 915)...) }, 1, 0, 0, []int{95, 90, 15}},
		{"slices that change anyway are filled first, the fullest before others", 100, []int{90, 50, 10},
			func(p []*corev1.Pod) []*corev1.Pod { return append(without(p, 0, 95), podRange(900, 920)...) }, 0, 2, 0, []int{100, 58, 10}},
		{"what does not fit there goes to a new slice", 10, []int{9, 9},
			func(p []*corev1.Pod) []*corev1.Pod { return append(without(p, 0), podRange(900, 905)...) }, 1, 1, 0, []int{10, 9, 3}},
		{"more than a slice holds makes new ones and fills the rest in", 10, []int{7},
			func(p []*corev1.Pod) []*corev1.Pod { return append(p, podRange(900, 913)...) }, 1, 1, 0, []int{10, 10}},
		{"an emptied slice goes", 100, []int{3, 100}, func(p []*corev1.Pod) []*corev1.Pod { return p[3:] }, 0, 0, 1, []int{100}},
		{"an emptied slice is reused for what is new", 5, []int{5, 5}, func(p []*corev1.Pod) []*corev1.Pod { return append(p[5:], podRange(900, 905)...) }, 0, 1, 0, []int{5, 5}},
		{"the last endpoint leaves a placeholder in its slice", 100, []int{1}, func([]*corev1.Pod) []*corev1.Pod { return nil }, 0, 1, 0, []int{0}},
		{"the last endpoints of two slices leave one placeholder", 100, []int{2, 2}, func([]*corev1.Pod) []*corev1.Pod { return nil }, 0, 1, 1, []int{0}},
		{"a change of state stays in place", 100, []int{100, 100}, func(p []*corev1.Pod) []*corev1.Pod { return append(without(p, 150), pod(150, unready)) }, 0, 1, 0, []int{100, 100}},
		{"half-empty slices are not merged", 100, []int{100, 100, 100},
			func(p []*corev1.Pod) []*corev1.Pod { return slices.Concat(p[:10], p[100:110], p[200:210]) }, 0, 3, 0, []int{10, 10, 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.max)
			pods := w.fill(c.sizes...)
			next := c.next(pods)
			p := w.step(next)
			if len(p.Create) != c.c || len(p.Update) != c.u || len(p.Delete) != c.d {
				t.Errorf("created %d, updated %d, deleted %d; want %d, %d, %d", len(p.Create), len(p.Update), len(p.Delete), c.c, c.u, c.d)
			}
			if got := w.sizes(); !slices.Equal(got, c.want) {
				t.Errorf("slices of %v endpoints, want %v", got, c.want)
			}
			if again := w.step(next); again.Changes() != 0 {
				t.Errorf("the same pods again change %d slices", again.Changes())
			}
		})
	}
}

func TestPackingCountsChurn(t *testing.T) {
	w := newWorld(t, 100)
	pods := w.fill(100, 50)
	p := w.step(append(without(pods, 1, 2, 120), podRange(900, 905)...))
	if p.Added != 5 || p.Removed != 3 {
		t.Errorf("added %d, removed %d; want 5 and 3", p.Added, p.Removed)
	}
	if want := []Group{{Endpoints: 152, Slices: 2}}; !slices.Equal(p.Groups, want) {
		t.Errorf("groups %v, want %v", p.Groups, want)
	}
	if p := w.step(nil); len(p.Groups) != 1 || p.Groups[0] != (Group{Slices: 1}) {
		t.Errorf("groups without pods %v, want one placeholder", p.Groups)
	}
}

func TestEndpointsSayWhatThePodIs(t *testing.T) {
	for _, c := range []struct {
		name             string
		svc              func(*corev1.Service)
		pod              func(*corev1.Pod)
		listed           bool
		ready, serv, end bool
	}{
		{"ready", nil, nil, true, true, true, false},
		{"not ready", nil, unready, true, false, false, false},
		{"no Ready condition", nil, func(p *corev1.Pod) { p.Status.Conditions = nil }, true, false, false, false},
		{"ready and terminating", nil, terminating, true, false, true, true},
		{"not ready and terminating", nil, func(p *corev1.Pod) { terminating(p); unready(p) }, true, false, false, true},
		{"not ready, published", publish, unready, true, true, false, false},
		{"ready and terminating, published", publish, terminating, true, true, true, true},
		{"succeeded", nil, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, false, false, false, false},
		{"failed", nil, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, false, false, false, false},
		{"failed, published", publish, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, false, false, false, false},
		{"without an address", nil, func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = "", nil }, false, false, false, false},
		{"with an address of the other family only", nil, func(p *corev1.Pod) { p.Status.PodIPs = p.Status.PodIPs[1:] }, false, false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 100)
			if c.svc != nil {
				c.svc(w.svc)
			}
			one := pod(1)
			if c.pod != nil {
				c.pod(one)
			}
			w.step([]*corev1.Pod{one})
			if len(w.slices) != 1 || len(w.slices[0].Endpoints) > 1 {
				t.Fatalf("slices of %v endpoints, want one slice", w.sizes())
			}
			if got := len(w.slices[0].Endpoints) == 1; got != c.listed {
				t.Fatalf("listed %t, want %t", got, c.listed)
			}
			if !c.listed {
				return
			}
			e := w.slices[0].Endpoints[0]
			if *e.Conditions.Ready != c.ready || *e.Conditions.Serving != c.serv || *e.Conditions.Terminating != c.end {
				t.Errorf("ready %t, serving %t, terminating %t; want %t, %t, %t",
					*e.Conditions.Ready, *e.Conditions.Serving, *e.Conditions.Terminating, c.ready, c.serv, c.end)
			}
			want := corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "pod-0001", UID: "uid-1"}
			if *e.TargetRef != want || *e.NodeName != "node-0" || *e.Zone != "zone-0" || e.Hostname != nil {
				t.Errorf("endpoint %+v", e)
			}
		})
	}
}

func publish(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }

func TestStateChangesAreWrittenInPlace(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"readiness":                              unready,
		"termination":                            terminating,
		"node":                                   onNode("node-1"),
		"node gone":                              onNode("bare"),
		"a new pod of the same name and address": func(p *corev1.Pod) { p.UID = "other" },
	} {
		w := newWorld(t, 100)
		pods := w.fill(3)
		change(pods[1])
		p := w.step(pods)
		if len(p.Update) != 1 || p.Added != 0 || p.Removed != 0 {
			t.Errorf("%s: %d updates, %d added, %d removed; want one update alone", name, len(p.Update), p.Added, p.Removed)
		}
		if got := w.slices[0].Endpoints[1].TargetRef.Name; got != "pod-0001" {
			t.Errorf("%s: the second place went to %s", name, got)
		}
	}
}

func TestAnotherAddressOrHostnameIsAnotherEndpoint(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"address":  func(p *corev1.Pod) { p.Status.PodIPs[0].IP = "10.9.9.9" },
		"hostname": func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "db-0", "web" },
	} {
		w := newWorld(t, 100)
		pods := w.fill(3)
		change(pods[1])
		if p := w.step(pods); p.Added != 1 || p.Removed != 1 || len(p.Update) != 1 {
			t.Errorf("%s: %d added, %d removed, %d updates; want 1, 1, 1", name, p.Added, p.Removed, len(p.Update))
		}
	}
}

func TestHostnamesNeedTheServiceAsSubdomain(t *testing.T) {
	w := newWorld(t, 100)
	w.step([]*corev1.Pod{
		pod(0, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "a", "web" }),
		pod(1, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "b", "other" }),
		pod(2, func(p *corev1.Pod) { p.Spec.Subdomain = "web" }),
	})
	e := w.slices[0].Endpoints
	if deref(e[0].Hostname) != "a" || e[1].Hostname != nil || e[2].Hostname != nil {
		t.Errorf("hostnames %v, %v, %v", e[0].Hostname, e[1].Hostname, e[2].Hostname)
	}
}

func TestNamedPortsSplitPodsIntoSlices(t *testing.T) {
	named := func(number int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "web", Protocol: corev1.ProtocolTCP, ContainerPort: number}}}}
		}
	}
	app := "kubernetes.io/h2c"
	w := newWorld(t, 2, func(s *corev1.Service) {
		s.Spec.Ports = []corev1.ServicePort{
			{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromString("web"), AppProtocol: &app},
			{Name: "admin", Protocol: corev1.ProtocolTCP, Port: 81, TargetPort: intstr.FromInt32(9000)},
		}
	})
	pods := slices.Concat(podRange(0, 3, named(8080)), podRange(3, 4, named(8081)), podRange(4, 5))
	w.step(pods)
	got := map[string]int{}
	for _, s := range w.slices {
		text := ""
		for _, p := range s.Ports {
			text += fmt.Sprintf("%s=%d/%s/%s ", *p.Name, *p.Port, *p.Protocol, deref(p.AppProtocol))
		}
		got[text] += len(s.Endpoints)
	}
	want := map[string]int{
		"http=8080/TCP/kubernetes.io/h2c admin=9000/TCP/ ": 3, "http=8081/TCP/kubernetes.io/h2c admin=9000/TCP/ ": 1, "admin=9000/TCP/ ": 1,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("endpoints by ports %v, want %v", got, want)
	}
	if len(w.slices) != 4 {
		t.Errorf("%d slices, want 4", len(w.slices))
	}
	slices.Reverse(w.slices[0].Ports) // the order in a slice means nothing
	if p := w.step(pods); p.Changes() != 0 {
		t.Errorf("the same pods again change %d slices", p.Changes())
	}
	named(8081)(pods[0])
	if p := w.step(pods); p.Changes() != 2 || len(p.Update) != 2 {
		t.Errorf("a pod that changes its group changes %d slices, want 2 updates", p.Changes())
	}
}

func TestNamedPortsOfRestartableInitContainers(t *testing.T) {
	always, never := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever
	port := &corev1.ServicePort{Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromString("dns")}
	container := func(number int32, protocol corev1.Protocol, policy *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{RestartPolicy: policy, Ports: []corev1.ContainerPort{{Name: "dns", Protocol: protocol, ContainerPort: number}}}
	}
	p := pod(0)
	p.Spec.InitContainers = []corev1.Container{container(1, "UDP", nil), container(2, "UDP", &never), container(3, "UDP", &always)}
	p.Spec.Containers = []corev1.Container{container(4, "TCP", nil)}
	if got := resolve(p, port); got != 3 {
		t.Errorf("resolved %d, want that of the sidecar, 3", got)
	}
	p.Spec.Containers = append(p.Spec.Containers, container(5, "UDP", nil))
	if got := resolve(p, port); got != 5 {
		t.Errorf("resolved %d, want that of the container, 5", got)
	}
}

func TestHeadlessWithoutPorts(t *testing.T) {
	w := newWorld(t, 100, func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.Ports = corev1.ClusterIPNone, nil })
	w.step(nil)
	if _, ok := w.slices[0].Labels[corev1.IsHeadlessService]; !ok {
		t.Errorf("labels %v lack the headless mark", w.slices[0].Labels)
	}
	p := w.step(podRange(0, 3))
	if len(p.Update) != 1 || p.Changes() != 1 || len(w.slices[0].Endpoints) != 3 || w.slices[0].Ports == nil || len(w.slices[0].Ports) != 0 {
		t.Errorf("the placeholder should be filled: %d changes, slice %+v", p.Changes(), w.slices[0])
	}
}

func TestNewSlice(t *testing.T) {
	w := newWorld(t, 100, func(s *corev1.Service) {
		s.Labels = map[string]string{"team": "a", discoveryv1.LabelManagedBy: "me", corev1.IsHeadlessService: "no"}
	})
	w.step(podRange(0, 1))
	got := w.slices[0]
	yes := true
	want := metav1.ObjectMeta{
		Name: "web-001", GenerateName: "web-", Namespace: "default",
		Labels: map[string]string{
			"team": "a", discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
		},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "web", UID: "svc-1", Controller: &yes, BlockOwnerDeletion: &yes}},
	}
	if fmt.Sprint(got.ObjectMeta.String()) != fmt.Sprint(want.String()) {
		t.Errorf("metadata\n%v\nwant\n%v", got.ObjectMeta.String(), want.String())
	}
	long := "a123456789012345678901234567890123456789012345678901234567890bc"
	if got := prefix(long); got != long+"-" {
		t.Errorf("prefix of a long name %q", got)
	}
}

func TestLabelsFollowTheService(t *testing.T) {
	w := newWorld(t, 100)
	pods := w.fill(2)
	w.svc.Labels = map[string]string{"team": "b"}
	if p := w.step(pods); len(p.Update) != 1 || w.slices[0].Labels["team"] != "b" {
		t.Errorf("%d updates, labels %v", len(p.Update), w.slices[0].Labels)
	}
	w.slices[0].Labels["stray"] = "x"
	if p := w.step(pods); len(p.Update) != 1 || w.slices[0].Labels["stray"] != "" {
		t.Errorf("%d updates, labels %v", len(p.Update), w.slices[0].Labels)
	}
	w.svc.Labels = nil
	if p := w.step(pods); len(p.Update) != 1 || len(w.slices[0].Labels) != 2 {
		t.Errorf("%d updates, labels %v", len(p.Update), w.slices[0].Labels)
	}
	w.svc.Labels = map[string]string{"team": "c"}
	if p := w.step(nil); len(p.Update) != 1 || p.Changes() != 1 || w.slices[0].Labels["team"] != "c" {
		t.Errorf("placeholder: %d changes, labels %v", p.Changes(), w.slices[0].Labels)
	}
	w.svc.Labels = map[string]string{"team": "d"}
	if p := w.step(nil); p.Changes() != 1 || w.slices[0].Labels["team"] != "d" {
		t.Errorf("labels of a placeholder: %d changes, labels %v", p.Changes(), w.slices[0].Labels)
	}
}

func TestPlaceholderOfAHeadlessServiceIsMarked(t *testing.T) {
	w := newWorld(t, 100, func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone })
	w.step(nil)
	delete(w.slices[0].Labels, corev1.IsHeadlessService)
	p := w.step(nil)
	if _, ok := w.slices[0].Labels[corev1.IsHeadlessService]; !ok || len(p.Update) != 1 {
		t.Errorf("%d updates, labels %v; want the mark restored", len(p.Update), w.slices[0].Labels)
	}
}

// The slices of a Service that is no longer headless must lose the headless label, because kube-proxy ignores slices that
// have it. Those of a Service that has become headless need it.
func TestTheHeadlessMarkFollowsTheService(t *testing.T) {
	w := newWorld(t, 100, func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone })
	pods := w.fill(2)
	for _, address := range []string{"10.0.0.7", corev1.ClusterIPNone} {
		w.svc.Spec.ClusterIP = address
		p := w.step(pods)
		if _, marked := w.slices[0].Labels[corev1.IsHeadlessService]; len(p.Update) != 1 || p.Changes() != 1 || marked != (address == corev1.ClusterIPNone) {
			t.Errorf("%s: %d changes, labels %v", address, p.Changes(), w.slices[0].Labels)
		}
		if p := w.step(pods); p.Changes() != 0 {
			t.Errorf("%s: %d more changes", address, p.Changes())
		}
	}
}

// The update of a reused slice is bound to the version that was read.
func TestReuseKeepsIdentity(t *testing.T) {
	w := newWorld(t, 100)
	w.step(nil)
	w.slices[0].UID, w.slices[0].ResourceVersion = "uid-7", "42"
	p := w.step(podRange(0, 1))
	if len(p.Update) != 1 || p.Update[0].UID != "uid-7" || p.Update[0].ResourceVersion != "42" || p.Update[0].Name != "web-001" {
		t.Errorf("update %+v", p.Update)
	}
}

func TestZoneOfANodeChanges(t *testing.T) {
	w := newWorld(t, 100)
	pods := w.fill(2)
	p := Pack(Input{Service: w.svc, Family: discoveryv1.AddressTypeIPv4, Pods: pods, Existing: w.slices, Max: 100,
		Zone: func(string) (string, bool) { return "elsewhere", true }})
	if len(p.Update) != 1 || deref(p.Update[0].Endpoints[1].Zone) != "elsewhere" {
		t.Errorf("%d updates, want one with the new zone", len(p.Update))
	}
}

func TestSlicesOfAnEarlierServiceGo(t *testing.T) {
	for _, n := range []int{0, 3} {
		w := newWorld(t, 100)
		w.fill(n)
		if n == 0 {
			w.step(nil)
		}
		w.svc.UID = "svc-2"
		p := w.step(podRange(0, n))
		if len(p.Create) != 1 || len(p.Delete) != 1 || len(p.Update) != 0 {
			t.Errorf("%d endpoints: created %d, updated %d, deleted %d; want a new slice and the old one deleted", n, len(p.Create), len(p.Update), len(p.Delete))
		}
	}
}

func TestOtherPeoplesEditsAreUndone(t *testing.T) {
	for name, edit := range map[string]func(s *discoveryv1.EndpointSlice){
		"an address":        func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"1.2.3.4"} },
		"two addresses":     func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"10.1.0.1", "1.2.3.4"} },
		"no target":         func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].TargetRef = nil },
		"another target":    func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].TargetRef.Namespace = "x" },
		"no conditions":     func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions = discoveryv1.EndpointConditions{} },
		"an endpoint twice": func(s *discoveryv1.EndpointSlice) { s.Endpoints = append(s.Endpoints, s.Endpoints[0]) },
		"one too many": func(s *discoveryv1.EndpointSlice) {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{"1.1.1.1"}})
		},
		"one too few": func(s *discoveryv1.EndpointSlice) { s.Endpoints = s.Endpoints[1:] },
		"ports":       func(s *discoveryv1.EndpointSlice) { s.Ports = nil },
		"a hint":      func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Hints = &discoveryv1.EndpointHints{} },
	} {
		w := newWorld(t, 100)
		pods := w.fill(3)
		want := names(w.slices)
		edit(w.slices[0])
		if p := w.step(pods); p.Changes() != 1 || len(p.Update) != 1 {
			t.Errorf("%s: %d changes, want one update", name, p.Changes())
		}
		if got := names(w.slices); !slices.Equal(got, want) || len(w.slices[0].Ports) != 1 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		if p := w.step(pods); p.Changes() != 0 {
			t.Errorf("%s: %d changes after the repair", name, p.Changes())
		}
	}
}

// names lists pod and address of all endpoints, in order of name.
func names(list []*discoveryv1.EndpointSlice) []string {
	var out []string
	for _, s := range list {
		for _, e := range s.Endpoints {
			ref := ""
			if e.TargetRef != nil {
				ref = e.TargetRef.Name
			}
			out = append(out, ref+" "+fmt.Sprint(e.Addresses))
		}
	}
	slices.Sort(out)
	return out
}

func TestPodsOfUnknownNodes(t *testing.T) {
	pods := []*corev1.Pod{pod(0), pod(1, onNode("gone")), pod(2, onNode(""))}
	w := newWorld(t, 100)
	p := w.step(pods)
	if len(p.MissingNode) != 2 || len(names(w.slices)) != 1 {
		t.Errorf("%d left out, listed %v; want 2 left out", len(p.MissingNode), names(w.slices))
	}
	w = newWorld(t, 100, publish)
	p = w.step(pods)
	if len(p.MissingNode) != 0 || len(names(w.slices)) != 3 {
		t.Errorf("published: %d left out, listed %v; want all listed", len(p.MissingNode), names(w.slices))
	}
	if e := w.slices[0].Endpoints; deref(e[1].NodeName) != "gone" || e[1].Zone != nil || e[2].NodeName != nil {
		t.Errorf("published endpoints %+v", e)
	}
}

func TestFamilies(t *testing.T) {
	const v4, v6 = discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6
	for _, c := range []struct {
		families []corev1.IPFamily
		ip       string
		want     []discoveryv1.AddressType
	}{
		{[]corev1.IPFamily{"IPv4"}, "10.0.0.1", []discoveryv1.AddressType{v4}},
		{[]corev1.IPFamily{"IPv6"}, "fd00::1", []discoveryv1.AddressType{v6}},
		{[]corev1.IPFamily{"IPv6", "IPv4"}, "fd00::1", []discoveryv1.AddressType{v4, v6}},
		{[]corev1.IPFamily{"IPv4"}, "None", []discoveryv1.AddressType{v4}},
		{nil, "10.0.0.1", []discoveryv1.AddressType{v4}},
		{nil, "fd00::1", []discoveryv1.AddressType{v6}},
		{nil, "None", []discoveryv1.AddressType{v4, v6}},
		{nil, "", []discoveryv1.AddressType{v4, v6}},
	} {
		s := service(func(s *corev1.Service) { s.Spec.IPFamilies, s.Spec.ClusterIP = c.families, c.ip })
		if got := Families(s); !slices.Equal(got, c.want) {
			t.Errorf("families %v, cluster IP %q: %v, want %v", c.families, c.ip, got, c.want)
		}
	}
}

func TestCanonicalAddresses(t *testing.T) {
	for raw, want := range map[string]string{
		"10.0.0.1": "10.0.0.1 false", "010.000.00.1": "10.0.0.1 false", "::ffff:10.0.0.1": "10.0.0.1 false",
		"fd00:0:0::1": "fd00::1 true", "FD00::1": "fd00::1 true", "fd00::1": "fd00::1 true", "": " false", "nonsense": " false", "fe80::1%eth0": " false",
	} {
		text, v6 := canonical(raw)
		if got := fmt.Sprint(text, " ", v6); got != want {
			t.Errorf("canonical(%q) = %s, want %s", raw, got, want)
		}
	}
}
