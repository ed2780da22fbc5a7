package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inTurn carries out several steps.
func inTurn(steps []step) func(context.Context, *subject) error {
	return func(ctx context.Context, s *subject) error {
		var errs []error
		for _, one := range steps {
			errs = append(errs, one.do(ctx, s))
		}
		return errors.Join(errs...)
	}
}

// newPods is the step that creates n more pods.
func (p *servicePlan) newPods(n int) step {
	var steps []step
	for range n {
		steps = append(steps, created("pods", p.newPod()))
	}
	return together(steps...)
}

// newPod draws a pod on one of the nodes, with a port "http" that is not the same in all of them.
func (p *servicePlan) newPod() *corev1.Pod {
	r := p.r
	i := p.pods
	p.pods++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("p%d", i), Labels: podLabels(r),
			Annotations: map[string]string{pinned: exact, acts: pick(r, runs, runs, runs, runs, runs, stay, hang, hang, fail, succeed), addressed: drawAddresses(r, i)},
		},
		Spec: template("p", "").Spec,
	}
	if p.kind == timed && (pod.Annotations[acts] == fail || pod.Annotations[acts] == succeed) {
		pod.Annotations[acts] = hang // with two changes within a second, the second one has no time of its own
	}
	pod.Spec.NodeName = fmt.Sprintf("node-%d", 1+r.IntN(nodes))
	pod.Spec.Containers = podContainers(r)
	if chance(r, 4) {
		always := corev1.ContainerRestartPolicyAlways
		pod.Spec.InitContainers = []corev1.Container{
			{Name: "side", Image: "fake:1", RestartPolicy: pick(r, &always, nil), Ports: []corev1.ContainerPort{{Name: "side", ContainerPort: 7000 + int32(r.IntN(2))}}},
		}
	}
	if chance(r, 6) {
		pod.Spec.HostNetwork = true
		for i := range pod.Spec.Containers {
			for j := range pod.Spec.Containers[i].Ports {
				pod.Spec.Containers[i].Ports[j].HostPort = pod.Spec.Containers[i].Ports[j].ContainerPort
			}
		}
		for i := range pod.Spec.InitContainers {
			pod.Spec.InitContainers[i].Ports[0].HostPort = pod.Spec.InitContainers[i].Ports[0].ContainerPort
		}
	}
	if chance(r, 3) {
		pod.Spec.Hostname, pod.Spec.Subdomain = pick(r, "host", "", "other"), pick(r, "s0", "s1", "", "elsewhere")
	}
	if chance(r, 10) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	if chance(r, 5) {
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	}
	return pod
}

func podLabels(r *rand.Rand) map[string]string {
	return map[string]string{"app": pick(r, "a", "a", "b"), "tier": pick(r, "x", "y")}
}

// podContainers draws containers whose ports share names.
func podContainers(r *rand.Rand) []corev1.Container {
	http := corev1.ContainerPort{Name: "http", ContainerPort: pick[int32](r, 8080, 8080, 9090), Protocol: pick(r, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP)}
	list := []corev1.Container{{Name: "main", Image: "fake:1", Ports: []corev1.ContainerPort{http}}}
	if chance(r, 2) {
		list[0].Ports = append(list[0].Ports, corev1.ContainerPort{Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP})
	}
	if chance(r, 2) {
		list[0].Ports = append(list[0].Ports, corev1.ContainerPort{Name: "sig", ContainerPort: 3868, Protocol: corev1.ProtocolSCTP})
	}
	if chance(r, 3) {
		list = append(list, corev1.Container{Name: "second", Image: "fake:1", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8181, Protocol: corev1.ProtocolTCP}}})
	}
	return list
}

// drawAddresses draws the addresses of pod number i: of one family, of both in either order, or none.
func drawAddresses(r *rand.Rand, i int) string {
	four, six := fmt.Sprintf("%s%d.%d", given, r.IntN(200), 1+i), fmt.Sprintf("2001:db8::%x:%x", 1+r.IntN(200), 1+i)
	return pick(r, four, four, six, four+","+six, four+","+six, six+","+four, "")
}

// changeOfPod draws a change of one pod, which may be gone.
func (p *servicePlan) changeOfPod() step {
	r := p.r
	i := r.IntN(p.pods)
	name := fmt.Sprintf("p%d", i)
	merge := func(format string, args ...any) step { return patched("pods", name, format, args...) }
	status := func(format string, args ...any) step {
		return patchedStatus("pods", name, format, args...)
	}
	condition := func(kind, value string) step {
		return status(`{"status":{"conditions":[{"type":%q,"status":%q,"lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`, kind, value)
	}
	switch r.IntN(12) {
	case 0:
		return merge(`{"metadata":{"labels":{"app":%s}}}`, pick(r, `"a"`, `"b"`, `"c"`, `null`))
	case 1:
		return merge(`{"metadata":{"labels":{"tier":%s,"more":"x"}}}`, pick(r, `"x"`, `"y"`, `null`))
	case 2, 3, 4:
		return deleted("pods", name, "")
	case 5:
		return merge(`{"metadata":{"annotations":{"parity/acts":%q}}}`, pick(r, runs, stay))
	case 6:
		ips := drawAddresses(r, i+100)
		return readdressed(name, ips)
	case 7:
		return status(`{"status":{"podIP":null,"podIPs":null}}`)
	case 8:
		return condition("Ready", pick(r, "True", "False", "Unknown"))
	case 9:
		return condition("Initialized", "True")
	case 10:
		// A pod that has ended is not ready: see the README's differences, EndpointSlices.
		return status(`{"status":%s}`, pick(r, `{"phase":"Failed","conditions":[{"type":"Ready","status":"False"}]}`, `{"phase":"Succeeded","conditions":null}`,
			`{"phase":"Running"}`, `{"phase":"Pending"}`, `{"phase":"Unknown"}`))
	default:
		return status(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
	}
}

// readdressed is the step that gives a pod other addresses.
func readdressed(name, ips string) step {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{addressed: ips}}}
	setAddresses(&pod)
	if len(pod.Status.PodIPs) == 0 {
		return patchedStatus("pods", name, `{"status":{"podIP":null,"podIPs":null}}`)
	}
	return patchedStatus("pods", name, `{"status":{"podIP":%q,"podIPs":%s}}`, pod.Status.PodIP, toJSON(pod.Status.PodIPs))
}
