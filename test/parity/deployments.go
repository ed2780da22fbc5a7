package main

import (
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// template is that of the pods of a workload called name.
func template(name, behaviour string) corev1.PodTemplateSpec {
	grace := int64(1)
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}, Annotations: map[string]string{acts: behaviour}},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "main", Image: "fake:1"}},
			TerminationGracePeriodSeconds: &grace,
		},
	}
}

// deploymentProgram rolls, scales, pauses and breaks a Deployment.
func deploymentProgram(r *rand.Rand) program {
	bound := func() *intstr.IntOrString {
		v := pick(r, intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("25%"), intstr.FromString("50%"), intstr.FromString("100%"))
		return &v
	}
	replicas := int32(r.IntN(9))
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Template: template("web", pick(r, runs, runs, stay)),
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: bound(), MaxUnavailable: bound()}},
	}}
	if chance(r, 4) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	if chance(r, 3) {
		limit := int32(r.IntN(3))
		d.Spec.RevisionHistoryLimit = &limit
	}
	if chance(r, 4) {
		seconds := int32(5)
		d.Spec.ProgressDeadlineSeconds = &seconds
	}
	if chance(r, 4) {
		d.Spec.MinReadySeconds = 2
	}
	if chance(r, 5) {
		d.Spec.Paused = true
	}
	p := program{steps: []step{created("deployments", d)}}
	for range 3 + r.IntN(5) {
		next := deploymentStep(r)
		next.hurry = chance(r, 4)
		p.steps = append(p.steps, next)
	}
	p.steps[len(p.steps)-1].hurry = false
	if chance(r, 2) {
		p.steps = append(p.steps, deleted("deployments", "web", pick(r, "", metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground)))
	}
	return p
}

func deploymentStep(r *rand.Rand) step {
	merge := func(format string, args ...any) step { return patched("deployments", "web", format, args...) }
	from, n := r.IntN(3), 1+r.IntN(3)
	switch r.IntN(9) {
	case 0:
		return merge(`{"spec":{"replicas":%d}}`, r.IntN(10))
	case 1, 2, 3:
		return merge(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"fake:%d"}]}}}}`, 1+r.IntN(4))
	case 4:
		return merge(`{"spec":{"paused":%v}}`, chance(r, 2))
	case 5:
		return merge(`{"metadata":{"annotations":{"note":"%d"}}}`, r.IntN(100))
	case 6:
		return merge(`{"spec":{"template":{"metadata":{"annotations":{"parity/acts":"%s"}}}}}`, pick(r, runs, stay, hang))
	case 7:
		return acted(from, from+n, "become ready", ready)
	default:
		return acted(from, from+n, "fail", failed(1))
	}
}
