package layout

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netutils "k8s.io/utils/net"

	"orrery/controllers/internal/podctl"
)

// member is what an endpoint should be, in a form that is cheap to compare. An Endpoint is made from it only when a slice
// has to be written.
type member struct {
	pod      *corev1.Pod
	address  string
	zone     string // empty: unknown
	hostname string // empty: the Service does not publish it
	group    int

	ready, serving, terminating bool
	placed                      bool // a slice has it already
}

// Listed reports whether a pod can be an endpoint at all: it has an address and has not ended.
func Listed(pod *corev1.Pod) bool {
	return !podctl.Finished(pod) && (pod.Status.PodIP != "" || len(pod.Status.PodIPs) > 0)
}

// newMember returns the member for a pod in one family; ok is false if the pod has no address of that family.
func newMember(svc *corev1.Service, pod *corev1.Pod, zone string, family discoveryv1.AddressType) (m member, ok bool) {
	m = member{pod: pod, zone: zone, address: addressOf(pod, family)}
	if m.address == "" {
		return m, false
	}
	m.serving = podctl.Ready(pod)
	m.terminating = pod.DeletionTimestamp != nil
	m.ready = svc.Spec.PublishNotReadyAddresses || m.serving && !m.terminating
	if pod.Spec.Subdomain == svc.Name && pod.Namespace == svc.Namespace {
		m.hostname = pod.Spec.Hostname
	}
	return m, true
}

// addressOf returns the pod's address of a family in canonical form, or "". The API allows one per family.
func addressOf(pod *corev1.Pod, family discoveryv1.AddressType) string {
	for i := range pod.Status.PodIPs {
		raw := pod.Status.PodIPs[i].IP
		if text, v6 := canonical(raw); text != "" && v6 == (family == discoveryv1.AddressTypeIPv6) {
			return text
		}
	}
	return ""
}

// canonical returns the canonical form of an address, or "" if it is invalid, and whether it is an IPv6 address. Addresses
// that are canonical already, as those set by the kubelet are, cost no allocation.
func canonical(raw string) (text string, v6 bool) {
	addr, err := netip.ParseAddr(raw)
	if err != nil || addr.Zone() != "" {
		// Old components wrote IPv4 addresses with leading zeros, which only the lenient parser accepts.
		ip := netutils.ParseIPSloppy(raw)
		if ip == nil {
			return "", false
		}
		return ip.String(), ip.To4() == nil
	}
	addr = addr.Unmap()
	var buf [48]byte
	if plain := addr.AppendTo(buf[:0]); string(plain) != raw {
		return string(plain), addr.Is6()
	}
	return raw, addr.Is6()
}

// identifies reports whether an endpoint is that of the member, whatever its state. Address, host name and pod identify an
// endpoint; a change of any other field updates it in place.
func (m *member) identifies(e *discoveryv1.Endpoint) bool {
	return len(e.Addresses) == 1 && e.Addresses[0] == m.address &&
		e.TargetRef.Name == m.pod.Name && e.TargetRef.Namespace == m.pod.Namespace &&
		deref(e.Hostname) == m.hostname
}

// matches reports whether the endpoint of the member is up to date, ignoring hints.
func (m *member) matches(e *discoveryv1.Endpoint) bool {
	t := e.TargetRef
	return flag(e.Conditions.Ready, m.ready) && flag(e.Conditions.Serving, m.serving) &&
		flag(e.Conditions.Terminating, m.terminating) &&
		text(e.NodeName, m.pod.Spec.NodeName) && text(e.Zone, m.zone) &&
		t.Kind == "Pod" && t.UID == m.pod.UID && t.APIVersion == "" && t.FieldPath == ""
}

// endpoint returns the endpoint for the member, without hints.
func (m *member) endpoint() discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{
		Addresses: []string{m.address},
		Conditions: discoveryv1.EndpointConditions{
			Ready: new(m.ready), Serving: new(m.serving), Terminating: new(m.terminating),
		},
		TargetRef: &corev1.ObjectReference{
			Kind: "Pod", Namespace: m.pod.Namespace, Name: m.pod.Name, UID: m.pod.UID,
		},
	}
	if m.pod.Spec.NodeName != "" {
		e.NodeName = new(m.pod.Spec.NodeName)
	}
	if m.zone != "" {
		e.Zone = new(m.zone)
	}
	if m.hostname != "" {
		e.Hostname = new(m.hostname)
	}
	return e
}

// unhinted returns an endpoint, which stays in a slice that is rewritten, without hints and deprecated fields.
func unhinted(e discoveryv1.Endpoint) discoveryv1.Endpoint {
	e.Hints, e.DeprecatedTopology = nil, nil
	return e
}

func flag(have *bool, want bool) bool { return have != nil && *have == want }

// text compares an optional field with a value; the empty value means that the field must be absent.
func text(have *string, want string) bool {
	if have == nil {
		return want == ""
	}
	return want != "" && *have == want
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// byPodName is the order in which members are placed, so that the same input results in the same slices.
func byPodName(a, b *member) int { return strings.Compare(a.pod.Name, b.pod.Name) }
