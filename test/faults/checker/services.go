package checker

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// slicesBy is the value of the label managed-by of the slices that are checked.
const slicesBy = "endpointslice-controller.k8s.io"

// network is what is known of Services and their addresses.
type network struct {
	services  map[types.UID]*corev1.Service
	slices    map[types.UID]*discoveryv1.EndpointSlice
	wereReady map[types.UID]bool // pods that were ready once
	inFull    map[types.UID]int  // pods of which no change was missed as long as so many lists were seen
	lists     int
}

func newNetwork() network {
	return network{
		services: map[types.UID]*corev1.Service{}, slices: map[types.UID]*discoveryv1.EndpointSlice{},
		wereReady: map[types.UID]bool{}, inFull: map[types.UID]int{},
	}
}

func (c *Checker) onService(o *corev1.Service, gone bool) {
	if gone {
		delete(c.services, o.UID)
		return
	}
	c.services[o.UID] = o
}

// notePod remembers whether a pod has ever been ready.
func (c *Checker) notePod(p *corev1.Pod, isNew, gone, listed bool) {
	switch {
	case gone:
		delete(c.wereReady, p.UID)
		delete(c.inFull, p.UID)
		return
	case isNew && !listed:
		c.inFull[p.UID] = c.lists
	}
	if ready(p) {
		c.wereReady[p.UID] = true
	}
}

// onSlice records a slice, and checks that no address is ready before its pod is.
func (c *Checker) onSlice(o *discoveryv1.EndpointSlice, gone bool) {
	if gone {
		delete(c.slices, o.UID)
		return
	}
	c.slices[o.UID] = o
	s := c.serviceOf(o)
	if s == nil || s.Spec.PublishNotReadyAddresses {
		return
	}
	for _, e := range o.Endpoints {
		uid, ok := podOf(e)
		lists, seen := c.inFull[uid]
		if ok && isTrue(e.Conditions.Ready) && seen && lists == c.lists && !c.wereReady[uid] {
			c.violated("endpoint", o, []*corev1.Pod{c.loose[uid]}, "the address of pod %s is ready, and the pod never was", c.loose[uid].Name)
		}
	}
}

func isTrue(b *bool) bool { return b != nil && *b }

func podOf(e discoveryv1.Endpoint) (types.UID, bool) {
	if e.TargetRef == nil || e.TargetRef.Kind != "Pod" {
		return "", false
	}
	return e.TargetRef.UID, true
}

// serviceOf returns the Service that a slice belongs to, or nil.
func (c *Checker) serviceOf(o *discoveryv1.EndpointSlice) *corev1.Service {
	if o.Labels[discoveryv1.LabelManagedBy] != slicesBy {
		return nil
	}
	for _, ref := range o.OwnerReferences {
		if s := c.services[ref.UID]; s != nil {
			return s
		}
	}
	return nil
}

// unsettledServices names the Services whose slices are not as they should be: the addresses of every pod, once for each
// family, ready if the pod is, with the Service's ports, and no others.
func (c *Checker) unsettledServices() (names []string) {
	for _, s := range c.services {
		if len(s.Spec.Selector) == 0 || c.ending(s.Namespace) {
			continue
		}
		for _, family := range s.Spec.IPFamilies {
			if fault := c.faultOf(s, family); fault != "" {
				names = append(names, name(s)+" ("+fault+")")
			}
		}
	}
	return names
}

// faultOf returns what is wrong with the slices of one family of a Service, or "".
func (c *Checker) faultOf(s *corev1.Service, family corev1.IPFamily) string {
	wanted := c.addresses(s, family)
	for _, o := range c.slices {
		if c.serviceOf(o) != s || string(o.AddressType) != string(family) {
			continue
		}
		if !samePorts(s, o) {
			return fmt.Sprintf("the ports of %s are not its own", o.Name)
		}
		for _, e := range o.Endpoints {
			uid, _ := podOf(e)
			w, ok := wanted[uid]
			switch {
			case !ok:
				return fmt.Sprintf("%v of %s in %s is one too many", e.Addresses, e.TargetRef.Name, o.Name)
			case !slices.Equal(e.Addresses, []string{w.address}) || isTrue(e.Conditions.Ready) != w.ready:
				return fmt.Sprintf("%v of %s in %s should be %s, ready %t", e.Addresses, e.TargetRef.Name, o.Name, w.address, w.ready)
			}
			delete(wanted, uid)
		}
	}
	for uid := range wanted {
		return fmt.Sprintf("the address of %s is missing", c.loose[uid].Name)
	}
	return ""
}

type endpoint struct {
	address string
	ready   bool
}

// addresses returns the pods of a Service and what its slices should say about them.
func (c *Checker) addresses(s *corev1.Service, family corev1.IPFamily) map[types.UID]endpoint {
	out := map[types.UID]endpoint{}
	selector := labels.SelectorFromSet(s.Spec.Selector)
	for uid, p := range c.loose {
		if p.Namespace != s.Namespace || over(p) || p.Spec.NodeName == "" || !selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		for _, ip := range p.Status.PodIPs {
			if isIPv6(ip.IP) == (family == corev1.IPv6Protocol) {
				out[uid] = endpoint{ip.IP, ready(p) || s.Spec.PublishNotReadyAddresses}
			}
		}
	}
	return out
}

func isIPv6(ip string) bool { return slices.Contains([]byte(ip), ':') }

// samePorts compares the ports, which are all numbers.
func samePorts(s *corev1.Service, o *discoveryv1.EndpointSlice) bool {
	var want, got []int32
	for _, p := range s.Spec.Ports {
		want = append(want, p.TargetPort.IntVal)
	}
	for _, p := range o.Ports {
		if p.Port != nil {
			got = append(got, *p.Port)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	return len(o.Endpoints) == 0 || slices.Equal(want, got)
}
