package layout

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// unresolved stands for a port of the Service that a pod does not have.
const unresolved int32 = -1

// portGroups groups pods by the numbers that the ports of a Service resolve to on them. Pods of one group share slices.
type portGroups struct {
	svc     *corev1.Service
	named   bool      // some port is resolved by name, so that pods may differ
	numbers [][]int32 // per group, one number per port of the Service
	scratch []int32
}

func newPortGroups(svc *corev1.Service) *portGroups {
	g := &portGroups{svc: svc}
	for i := range svc.Spec.Ports {
		g.named = g.named || svc.Spec.Ports[i].TargetPort.Type == intstr.String
	}
	return g
}

// of returns the group of a pod.
func (g *portGroups) of(pod *corev1.Pod) int {
	if !g.named && len(g.numbers) == 1 {
		return 0
	}
	g.scratch = g.scratch[:0]
	for i := range g.svc.Spec.Ports {
		g.scratch = append(g.scratch, resolve(pod, &g.svc.Spec.Ports[i]))
	}
	for i, n := range g.numbers {
		if slices.Equal(n, g.scratch) {
			return i
		}
	}
	g.numbers = append(g.numbers, slices.Clone(g.scratch))
	return len(g.numbers) - 1
}

// sorted returns the groups in an order that does not depend on the order of the pods.
func (g *portGroups) sorted() []int {
	out := make([]int, len(g.numbers))
	for i := range out {
		out[i] = i
	}
	slices.SortFunc(out, func(a, b int) int { return slices.Compare(g.numbers[a], g.numbers[b]) })
	return out
}

// ports returns the ports of a group for its slices, never nil. Ports that its pods do not have are left out.
func (g *portGroups) ports(group int) []discoveryv1.EndpointPort {
	out := make([]discoveryv1.EndpointPort, 0, len(g.svc.Spec.Ports))
	for i, number := range g.numbers[group] {
		if number == unresolved {
			continue
		}
		p := &g.svc.Spec.Ports[i]
		out = append(out, discoveryv1.EndpointPort{
			Name: &p.Name, Port: &g.numbers[group][i], Protocol: &p.Protocol, AppProtocol: p.AppProtocol,
		})
	}
	return out
}

// resolve returns the number that a port of a Service has on a pod. A name is looked up in the containers and in the
// restartable init containers (sidecars).
func resolve(pod *corev1.Pod, port *corev1.ServicePort) int32 {
	if port.TargetPort.Type == intstr.Int {
		return port.TargetPort.IntVal
	}
	for i := range pod.Spec.Containers {
		if n := portNamed(&pod.Spec.Containers[i], port); n != unresolved {
			return n
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			continue
		}
		if n := portNamed(c, port); n != unresolved {
			return n
		}
	}
	return unresolved
}

func portNamed(c *corev1.Container, port *corev1.ServicePort) int32 {
	for i := range c.Ports {
		if p := &c.Ports[i]; p.Name == port.TargetPort.StrVal && p.Protocol == port.Protocol {
			return p.ContainerPort
		}
	}
	return unresolved
}

// samePorts compares port lists, ignoring their order.
func samePorts(a, b []discoveryv1.EndpointPort) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !slices.ContainsFunc(b, func(p discoveryv1.EndpointPort) bool { return samePort(&a[i], &p) }) {
			return false
		}
	}
	return true
}

func samePort(a, b *discoveryv1.EndpointPort) bool {
	return ptr.Equal(a.Name, b.Name) && ptr.Equal(a.Port, b.Port) && ptr.Equal(a.Protocol, b.Protocol) && ptr.Equal(a.AppProtocol, b.AppProtocol)
}
