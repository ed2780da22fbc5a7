package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// servicePlan is what a program about Services knows about its objects.
type servicePlan struct {
	r        *rand.Rand
	services int
	headless []bool // those that were last seen without a cluster IP
	pods     int
	steps    []step
	kind     string // the value of the label pinned
	orphans  bool   // the slices of deleted Services may be orphaned; then no finalizer holds the Services
}

// serviceProgram puts pods behind Services and changes all of them. All pods are pinned to nodes, so that nodes, zones and
// hints of endpoints are the same in both clusters.
func serviceProgram(r *rand.Rand) program {
	p := &servicePlan{r: r, services: 2 + r.IntN(3), kind: pick(r, exact, exact, spread, timed), orphans: chance(r, 2)}
	first := []step{p.newPods(3 + r.IntN(6))}
	for i := range p.services {
		svc := p.newService(i)
		p.headless = append(p.headless, svc.Spec.ClusterIP == corev1.ClusterIPNone)
		first = append(first, created("services", svc))
	}
	if chance(r, 3) { // the Services first
		first = append(first[1:], first[0])
	}
	p.steps = append(p.steps, together(first...))
	for range 5 + r.IntN(4) {
		// Which pods are seen before a Service stops to select any, and which slices there are in the middle of a change, is a
		// matter of chance: a step changes Services, pods or one slice.
		change := pick(r, p.change, p.changeOfPods)
		if chance(r, 6) {
			p.steps = append(p.steps, p.changeOfSlice())
			continue
		}
		var several []step
		for range 1 + r.IntN(3) {
			several = append(several, change())
		}
		if p.kind == timed {
			several = several[:1]
		}
		p.steps = append(p.steps, together(several...))
	}
	if chance(r, 3) {
		p.lateNode()
	}
	p.steps = append(p.steps, finalizersDropped("services", "endpointslices"))
	return program{steps: p.steps}
}

// lateNode puts a pod on a node that is added later. The node does not count for hints.
func (p *servicePlan) lateNode() {
	pod := p.newPod()
	pod.Spec.NodeName, pod.Annotations[acts] = self+"-late", pick(p.r, runs, hang)
	at := 1 + p.r.IntN(len(p.steps)-1)
	p.steps = slices.Insert(p.steps, at, created("pods", pod))
	p.steps = slices.Insert(p.steps, min(at+1+p.r.IntN(2), len(p.steps)), nodeMade("late", map[string]string{
		corev1.LabelTopologyZone: pick(p.r, "zone-b", ""), "node-role.kubernetes.io/control-plane": "",
	}))
}

// change draws a change of a Service.
func (p *servicePlan) change() step {
	if chance(p.r, 3) {
		return p.changeOfType()
	}
	return p.changeOfService()
}

func (p *servicePlan) changeOfPods() step {
	if chance(p.r, 6) {
		return p.newPods(1 + p.r.IntN(2))
	}
	return p.changeOfPod()
}

// newService draws a Service for the pods of newPods.
func (p *servicePlan) newService(i int) *corev1.Service {
	r := p.r
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%d", i), Labels: map[string]string{pinned: p.kind}},
		Spec: corev1.ServiceSpec{
			Selector: pick(r, map[string]string{"app": "a"}, map[string]string{"app": "b"}, map[string]string{"tier": "x"}, map[string]string{"app": "a", "tier": "y"}),
			Ports:    servicePorts(r), PublishNotReadyAddresses: chance(r, 4),
		},
	}
	for key, value := range oddLabels(r) {
		svc.Labels[key] = value
	}
	svc.Annotations = p.hintAnnotations()
	svc.Spec.TrafficDistribution = pick(r, nil, nil, new("PreferClose"), new("PreferSameZone"), new("PreferSameNode"))
	switch r.IntN(8) {
	case 0, 1:
		svc.Spec.ClusterIP = corev1.ClusterIPNone
		if chance(r, 3) {
			svc.Spec.Ports = nil
		}
	case 2:
		svc.Spec.Type = corev1.ServiceTypeNodePort
	case 3:
		svc.Spec.Type = corev1.ServiceTypeLoadBalancer
		svc.Spec.ExternalTrafficPolicy = pick(r, corev1.ServiceExternalTrafficPolicyLocal, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if chance(r, 8) {
		svc.Spec.Selector = nil
	}
	svc.Spec.IPFamilyPolicy = pick(r, nil, new(corev1.IPFamilyPolicySingleStack), new(corev1.IPFamilyPolicyPreferDualStack), new(corev1.IPFamilyPolicyRequireDualStack))
	if chance(r, 3) {
		svc.Spec.IPFamilies = []corev1.IPFamily{pick(r, corev1.IPv4Protocol, corev1.IPv6Protocol)}
	}
	if !p.orphans && chance(r, 6) {
		svc.Finalizers = []string{stays}
	}
	return svc
}

func (p *servicePlan) policy() metav1.DeletionPropagation {
	if p.orphans {
		return pick(p.r, "", metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground)
	}
	return pick(p.r, "", metav1.DeletePropagationBackground, metav1.DeletePropagationForeground)
}

// recreated is the step that deletes an object, and creates another of its name once it is gone, unless a finalizer holds it.
func recreated(resource string, obj metav1.Object, policy metav1.DeletionPropagation) step {
	gone, next := deleted(resource, obj.GetName(), policy), created(resource, obj.(runtime.Object))
	return step{text: gone.text + "; " + next.text, do: func(ctx context.Context, s *subject) error {
		if err := gone.do(ctx, s); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		for range 100 {
			old, err := s.any.Resource(kinds[resource]).Namespace(s.namespace).Get(ctx, obj.GetName(), metav1.GetOptions{})
			if err != nil || slices.Contains(old.GetFinalizers(), stays) {
				break
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
		return next.do(ctx, s)
	}}
}

// stays is a finalizer that nobody removes before the end of a program.
const stays = "parity.example/stay"

// finalizersDropped is the step that lets go what is being deleted.
func finalizersDropped(resources ...string) step {
	return step{text: fmt.Sprintf("drop all finalizers in %v", resources), do: func(ctx context.Context, s *subject) error {
		var errs []error
		for _, resource := range resources {
			list, err := s.any.Resource(kinds[resource]).Namespace(s.namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, obj := range list.Items {
				if len(obj.GetFinalizers()) > 0 {
					errs = append(errs, s.patch(ctx, resource, obj.GetName(), `{"metadata":{"finalizers":null}}`))
				}
			}
		}
		return errors.Join(errs...)
	}}
}

// oddLabels are labels of a Service that its slices get or must not get.
func oddLabels(r *rand.Rand) map[string]string {
	return pick(r, nil, nil, map[string]string{"team": "red"}, map[string]string{
		"endpointslice.kubernetes.io/managed-by": "somebody", "kubernetes.io/service-name": "other", "service.kubernetes.io/headless": "no",
	}, map[string]string{"service.kubernetes.io/headless": "", "service.kubernetes.io/service-proxy-name": "mine", "empty": ""})
}

func (p *servicePlan) hintAnnotations() map[string]string {
	const mode, old = corev1.AnnotationTopologyMode, corev1.DeprecatedAnnotationTopologyAwareHints
	if p.kind == spread {
		return pick(p.r, nil, map[string]string{mode: "Auto"}, map[string]string{mode: "auto"}, map[string]string{old: "Auto"}, map[string]string{old: "auto", mode: "auto"})
	}
	return pick(p.r, nil, nil, map[string]string{mode: "Odd"}, map[string]string{mode: "AUTO"}, map[string]string{old: "disabled"},
		map[string]string{corev1.EndpointsLastChangeTriggerTime: "yesterday"})
}

// servicePorts draws ports some of whose targets not all pods have.
func servicePorts(r *rand.Rand) []corev1.ServicePort {
	var out []corev1.ServicePort
	for i := range 1 + r.IntN(3) {
		protocol := pick(r, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
		target := pick(r, intstr.FromInt32(8080), intstr.FromString("http"), intstr.FromString("http"), intstr.FromString("dns"), intstr.FromString("sig"),
			intstr.FromString("side"), intstr.FromString("none"), intstr.IntOrString{})
		out = append(out, corev1.ServicePort{
			Name: fmt.Sprintf("port-%d", i), Port: 80 + int32(i), Protocol: protocol, TargetPort: target,
			AppProtocol: pick(r, nil, nil, new("http"), new("example.com/custom")),
		})
	}
	if len(out) == 1 && chance(r, 2) {
		out[0].Name = ""
	}
	return out
}

func (p *servicePlan) name() (i int, name string) {
	i = p.r.IntN(p.services)
	return i, fmt.Sprintf("s%d", i)
}

// changeOfService draws a change that leaves the Service's type as it is.
func (p *servicePlan) changeOfService() step {
	r := p.r
	_, name := p.name()
	merge := func(format string, args ...any) step { return patched("services", name, format, args...) }
	switch r.IntN(10) {
	case 0, 1:
		return merge(`{"spec":{"selector":%s}}`, pick(r, `{"app":"b","tier":null}`, `{"app":null,"tier":"y"}`, `{"app":"a","tier":"x"}`, `{"app":"c"}`))
	case 2:
		return merge(`{"spec":{"selector":null}}`)
	case 3, 4:
		return merge(`{"spec":{"ports":%s}}`, toJSON(servicePorts(r)))
	case 5:
		return merge(`{"spec":{"publishNotReadyAddresses":%v}}`, chance(r, 2))
	case 6:
		return merge(`{"metadata":{"labels":%s}}`, pick(r, `{"team":"blue"}`, `{"team":null,"empty":null}`,
			`{"endpointslice.kubernetes.io/managed-by":"me"}`, `{"kubernetes.io/service-name":"s0"}`, `{"service.kubernetes.io/headless":null}`))
	case 7:
		if p.kind != spread {
			return merge(`{"metadata":{"annotations":%s}}`, pick(r, `{"service.kubernetes.io/topology-mode":"Odd"}`, `{"note":"x"}`))
		}
		return merge(`{"metadata":{"annotations":%s}}`, pick(r, `{"service.kubernetes.io/topology-mode":"Auto"}`, `{"service.kubernetes.io/topology-mode":null}`,
			`{"service.kubernetes.io/topology-aware-hints":"Disabled","service.kubernetes.io/topology-mode":null}`, `{"service.kubernetes.io/topology-aware-hints":null,"service.kubernetes.io/topology-mode":"Auto"}`))
	case 8:
		return merge(`{"spec":{"trafficDistribution":%s}}`, pick(r, `"PreferClose"`, `"PreferSameNode"`, `"PreferSameZone"`, `null`))
	default:
		return merge(`{"spec":%s}`, pick(r, `{"ipFamilyPolicy":"RequireDualStack"}`, `{"ipFamilyPolicy":"PreferDualStack"}`,
			`{"ipFamilyPolicy":"SingleStack"}`, `{"sessionAffinity":"ClientIP"}`, `{"internalTrafficPolicy":"Local"}`))
	}
}

// changeOfType draws another type for a Service, or deletes it.
func (p *servicePlan) changeOfType() step {
	r := p.r
	i, name := p.name()
	merge := func(patch string) step { return patched("services", name, "%s", patch) }
	switch r.IntN(8) {
	case 0, 1:
		return merge(`{"spec":{"type":"ExternalName","externalName":"example.com","clusterIP":null,"clusterIPs":null,"ipFamilies":null,"ipFamilyPolicy":null,"trafficDistribution":null}}`)
	case 2, 3:
		// A Service that was headless stays so: see the second row of EndpointSlices in the README's differences.
		if p.headless[i] || chance(r, 3) {
			p.headless[i] = true
			return merge(`{"spec":{"type":"ClusterIP","externalName":null,"clusterIP":"None"}}`)
		}
		return merge(`{"spec":{"type":"ClusterIP","externalName":null}}`)
	case 4:
		return merge(`{"spec":{"type":"NodePort"}}`)
	case 5:
		return deleted("services", name, p.policy())
	case 6:
		svc := p.newService(i)
		p.headless[i] = p.headless[i] || svc.Spec.ClusterIP == corev1.ClusterIPNone
		return recreated("services", svc, p.policy())
	default:
		return merge(`{"metadata":{"finalizers":null}}`)
	}
}

// together is one step of several; it goes on if one of them fails.
func together(steps ...step) step {
	var texts []string
	for _, s := range steps {
		texts = append(texts, s.text)
	}
	return step{text: strings.Join(texts, "; "), do: inTurn(steps)}
}
