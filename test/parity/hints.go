package main

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hintedPrefix is that of the names of Services whose events about hints are compared: all else about them is settled when
// something changes that hints depend on.
const hintedPrefix = "hinted-"

// hintsProgram turns hints of Services on and off while their pods stay as they are, or change one at a time.
func hintsProgram(r *rand.Rand) program {
	p := &servicePlan{r: r, kind: spread}
	pods := p.newPods(4 + r.IntN(9))
	first := []step{}
	for i := range 2 {
		svc := p.newService(i)
		svc.Name = fmt.Sprintf("%s%d", hintedPrefix, i)
		svc.Spec.Selector = map[string]string{"app": "a"}
		first = append(first, created("services", svc))
	}
	out := program{steps: []step{pods, together(first...)}}
	for range 5 + r.IntN(4) {
		out.steps = append(out.steps, p.changeOfHints())
	}
	out.steps = append(out.steps, finalizersDropped("services"))
	return out
}

func (p *servicePlan) changeOfHints() step {
	r := p.r
	name := fmt.Sprintf("%s%d", hintedPrefix, r.IntN(2))
	merge := func(text string) step { return patched("services", name, "%s", text) }
	switch r.IntN(7) {
	case 0, 1, 2:
		return merge(`{"metadata":{"annotations":` + pick(r, `{"service.kubernetes.io/topology-mode":"Auto"}`, `{"service.kubernetes.io/topology-mode":null,"service.kubernetes.io/topology-aware-hints":null}`,
			`{"service.kubernetes.io/topology-aware-hints":"Disabled","service.kubernetes.io/topology-mode":null}`, `{"service.kubernetes.io/topology-aware-hints":null,"service.kubernetes.io/topology-mode":"Auto"}`) + `}}`)
	case 3:
		return merge(`{"spec":{"trafficDistribution":` + pick(r, `"PreferClose"`, `"PreferSameNode"`, `"PreferSameZone"`, `null`) + `}}`)
	case 4:
		return merge(`{"spec":` + pick(r, `{"ipFamilyPolicy":"RequireDualStack"}`, `{"ipFamilyPolicy":"SingleStack"}`, `{"selector":{"app":"b"}}`, `{"selector":{"app":"a"}}`) + `}`)
	case 5:
		return deleted("pods", fmt.Sprintf("p%d", r.IntN(p.pods)), "")
	}
	return p.newPods(1)
}

// crowdProgram puts more pods behind Services than a slice holds.
func crowdProgram(r *rand.Rand) program {
	p := &servicePlan{r: r, kind: exact}
	n := pick(r, 99, 100, 101, 150, 201)
	var pods []step
	for i := range n {
		pod := p.newPod()
		pod.Annotations[acts] = stay
		pod.Annotations[addressed] = fmt.Sprintf("%s%d.%d,2001:db8::%x", given, i/200, 1+i%200, 1+i)
		pod.Labels = map[string]string{"app": "a", "third": fmt.Sprint(i % 3)}
		pod.Spec.Hostname, pod.Spec.Subdomain, pod.Spec.Containers[0].Ports = "", "", []corev1.ContainerPort{{Name: "http", ContainerPort: 8080 + int32(i%2)}}
		pod.Spec.HostNetwork, pod.Spec.InitContainers = false, nil
		pods = append(pods, created("pods", pod))
	}
	var services []step
	for i := range 2 {
		svc := p.newService(i)
		svc.Spec.Selector = map[string]string{"app": "a"}
		svc.Spec.TrafficDistribution, svc.Finalizers = nil, nil
		services = append(services, created("services", svc))
	}
	crowd := together(pods...)
	crowd.text = fmt.Sprintf("%d pods", n)
	out := program{steps: []step{crowd, acted(0, n, "become ready", ready), together(services...)}}
	for range 4 {
		i, name := r.IntN(n), fmt.Sprintf("s%d", r.IntN(2))
		out.steps = append(out.steps, pick(r,
			patched("services", name, `{"spec":{"selector":{"third":"%d"}}}`, r.IntN(3)), patched("services", name, `{"spec":{"selector":{"third":null}}}`),
			patched("services", name, `{"spec":{"ports":%s}}`, toJSON([]corev1.ServicePort{{Port: 81, Protocol: corev1.ProtocolTCP}})),
			patched("services", name, `{"metadata":{"labels":{"team":"%d"}}}`, i), patched("services", name, `{"spec":{"publishNotReadyAddresses":%v}}`, chance(r, 2)),
			deleted("pods", fmt.Sprintf("p%d", i), ""), acted(i, i+1, "lose readiness", running),
			recreated("services", func() metav1.Object {
				svc := p.newService(0)
				svc.Spec.Selector, svc.Finalizers = map[string]string{"app": "a"}, nil
				return svc
			}(), "")))
	}
	return out
}
