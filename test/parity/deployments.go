package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

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

// bound draws a limit of a rolling update.
func bound(r *rand.Rand) *intstr.IntOrString {
	v := pick(r, intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("25%"), intstr.FromString("50%"), intstr.FromString("100%"),
		intstr.FromInt32(0), intstr.FromInt32(20), intstr.FromString("0%"), intstr.FromString("1%"), intstr.FromString("1000%"))
	return &v
}

// deployment draws a Deployment.
func deployment(r *rand.Rand) *appsv1.Deployment {
	replicas := int32(r.IntN(9))
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Template: template("web", pick(r, runs, runs, stay)),
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: bound(r), MaxUnavailable: bound(r)}},
	}}
	if chance(r, 4) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	if chance(r, 3) {
		limit := int32(r.IntN(3))
		d.Spec.RevisionHistoryLimit = &limit
	}
	if chance(r, 4) {
		seconds := int32(pick(r, 5, 2147483647))
		d.Spec.ProgressDeadlineSeconds = &seconds
	}
	if chance(r, 4) {
		d.Spec.MinReadySeconds = 2
	}
	if chance(r, 6) {
		d.Annotations = map[string]string{
			"deployment.kubernetes.io/revision":                pick(r, "7", "x", ""),
			"deployment.kubernetes.io/desired-replicas":        "3",
			"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "1",
		}
	}
	d.Spec.Paused = chance(r, 8)
	return d
}

// deploymentProgram rolls, scales, pauses and breaks a Deployment.
func deploymentProgram(r *rand.Rand) program {
	var p program
	if chance(r, 6) {
		p.steps = append(p.steps, solo(r, "solo-1"))
	}
	p.steps = append(p.steps, created("deployments", deployment(r)))
	for range 4 + r.IntN(5) {
		p.steps = append(p.steps, deploymentSteps(r)...)
	}
	for i := range p.steps {
		p.steps[i].hurry = i > 0 && i < len(p.steps)-1 && chance(r, 4)
	}
	if chance(r, 2) {
		p.steps = append(p.steps, deploymentEnd(r)...)
	}
	if chance(r, 4) {
		p.steps = append(p.steps, created("deployments", deployment(r)), rolled(r))
	}
	return p
}

func edited(format string, args ...any) step { return patched("deployments", "web", format, args...) }

// rolled changes the template.
func rolled(r *rand.Rand) step {
	switch r.IntN(8) {
	case 0:
		return edited(`{"spec":{"template":{"metadata":{"annotations":{"parity/acts":"%s"}}}}}`, pick(r, runs, stay, hang))
	case 1:
		return edited(`{"spec":{"template":{"metadata":{"labels":{"version":%s}}}}}`, pick(r, `"1"`, `"2"`, "null"))
	case 2:
		return edited(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"day %d"}}}}}`, r.IntN(3))
	default:
		return edited(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"fake:%d"}]}}}}`, 1+r.IntN(4))
	}
}

// deploymentSteps draws one or more steps that belong together.
func deploymentSteps(r *rand.Rand) []step {
	from, n := r.IntN(3), 1+r.IntN(3)
	switch r.IntN(20) {
	case 0, 1:
		return []step{edited(`{"spec":{"replicas":%d}}`, r.IntN(10))}
	case 2, 3, 4, 5, 6:
		return []step{rolled(r)}
	case 7, 8:
		return []step{edited(`{"spec":{"paused":%v}}`, chance(r, 2))}
	case 9:
		return []step{strategy(r)}
	case 10:
		return []step{acted(from, from+n, "become ready", ready)}
	case 11:
		return []step{acted(from, from+n, "fail", failed(1))}
	case 12:
		return []step{rolledBack(r)}
	case 13, 14, 15:
		return []step{setStep(r)}
	case 16:
		return []step{oddEdit(r)}
	case 17:
		return []step{solo(r, fmt.Sprintf("solo-%d", 2+r.IntN(3)))}
	case 18:
		return refusedPods(r)
	default:
		// The new pods do not start: the rollout is stuck while the size changes.
		return []step{
			edited(`{"spec":{"template":{"metadata":{"annotations":{"parity/acts":"stay","try":"%d"}}}}}`, r.IntN(100)),
			edited(`{"spec":{"replicas":%d}}`, r.IntN(12)),
		}
	}
}

// strategy changes how a Deployment rolls.
func strategy(r *rand.Rand) step {
	if chance(r, 3) {
		return edited(`{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`)
	}
	return edited(`{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":%s,"maxUnavailable":%s}}}}`, toJSON(bound(r)), toJSON(bound(r)))
}

// rolledBack asks for an earlier revision by the annotation that took the place of extensions/v1beta1's field.
func rolledBack(r *rand.Rand) step {
	return edited(`{"metadata":{"annotations":{"deprecated.deployment.rollback.to":"%s","note":"%d"}}}`, pick(r, "0", "0", "1", "2", "3", "99", "-1"), r.IntN(9))
}

// oddEdit changes what is seldom changed.
func oddEdit(r *rand.Rand) step {
	edits := []string{
		`{"spec":{"progressDeadlineSeconds":2147483647}}`,
		`{"spec":{"progressDeadlineSeconds":null}}`,
		`{"spec":{"progressDeadlineSeconds":5}}`,
		`{"spec":{"minReadySeconds":3}}`,
		`{"spec":{"minReadySeconds":0}}`,
		`{"spec":{"minReadySeconds":3,"progressDeadlineSeconds":3}}`,
		`{"spec":{"revisionHistoryLimit":0}}`,
		`{"spec":{"revisionHistoryLimit":1}}`,
		`{"spec":{"revisionHistoryLimit":null}}`,
		`{"spec":{"revisionHistoryLimit":2147483647}}`,
		`{"metadata":{"annotations":{"note":"2","deployment.kubernetes.io/revision":"9"}}}`,
		`{"metadata":{"annotations":{"note":null,"deployment.kubernetes.io/revision":null}}}`,
		`{"metadata":{"annotations":{"deployment.kubernetes.io/max-replicas":"9","kubectl.kubernetes.io/last-applied-configuration":"{}"}}}`,
		`{"metadata":{"labels":{"app":"other"}}}`,
		`{"metadata":{"finalizers":["parity/hold"]}}`,
		`{"metadata":{"finalizers":null}}`,
		`{"spec":{"template":{"metadata":{"labels":{"app":"other"}}}}}`,
		`{"spec":{"selector":{"matchLabels":{"app":"other"}}}}`,
		`{"spec":{"template":{"metadata":{"labels":{"pod-template-hash":"mine"}}}}}`,
		`{"spec":{"template":{"metadata":{"name":"x","namespace":"y"}}}}`,
	}
	states := []string{
		`{"collisionCount":3}`,
		`{"collisionCount":null}`,
		`{"replicas":99,"updatedReplicas":99,"readyReplicas":99,"availableReplicas":99,"unavailableReplicas":9}`,
		`{"conditions":null}`,
		`{"conditions":[{"type":"Odd","status":"Unknown"},{"type":"Available","status":"Unknown","reason":"Said"}]}`,
		`{"conditions":[{"type":"ReplicaFailure","status":"True","reason":"Said"}]}`,
		`{"observedGeneration":0}`,
	}
	if chance(r, 4) {
		return patchedStatus("deployments", "web", `{"status":%s}`, pick(r, states...))
	}
	return edited("%s", pick(r, edits...))
}

// refusedPods makes the server refuse pods, and then takes them again.
func refusedPods(r *rand.Rand) []step {
	nudge := edited(`{"metadata":{"annotations":{"nudge":"%d"}}}`, r.IntN(1000))
	switch r.IntN(4) {
	case 0:
		return []step{setsRefused(r)}
	case 1:
		return []step{quota(r.IntN(4)), rolled(r), quota(1000), setPatched(0, `{"metadata":{"labels":{"nudge":"1"}}}`), setPatched(1, `{"metadata":{"labels":{"nudge":"1"}}}`), nudge}
	case 2:
		return []step{
			edited(`{"spec":{"template":{"spec":{"serviceAccountName":"ghost"}}}}`), edited(`{"spec":{"replicas":%d}}`, r.IntN(8)),
			edited(`{"spec":{"template":{"spec":{"serviceAccountName":"","serviceAccount":""}}}}`), nudge,
		}
	default:
		return []step{
			edited(`{"spec":{"template":{"spec":{"priorityClassName":"ghost"}}}}`), rolledBack(r),
			edited(`{"spec":{"template":{"spec":{"priorityClassName":""}}}}`), nudge,
		}
	}
}

// solo creates a ReplicaSet that a Deployment adopts, with its template or with another.
func solo(r *rand.Rand, name string) step {
	replicas := int32(r.IntN(4))
	t := template("web", pick(r, runs, stay))
	t.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = name
	if chance(r, 2) {
		t.Spec.Containers[0].Image = "fake:2"
	}
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: t.Labels, Annotations: map[string]string{"note": "solo"}},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: t.Labels}, Template: t},
	}
	if chance(r, 2) {
		rs.Annotations["deployment.kubernetes.io/revision"] = pick(r, "1", "3", "50", "x", "-2", "", "9223372036854775807", strings.Repeat("9", 30))
	}
	if chance(r, 3) {
		rs.Annotations["deployment.kubernetes.io/revision-history"] = pick(r, "1,2", ",", strings.Repeat("1234567890,", 181)+"12345678")
	}
	return created("replicasets", rs)
}

// deploymentEnd deletes the Deployment.
func deploymentEnd(r *rand.Rand) []step {
	steps := []step{deleted("deployments", "web", pick(r, "", metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground))}
	if chance(r, 2) {
		steps = append(steps, setStep(r))
	}
	if chance(r, 2) {
		steps = append(steps, pick(r, rolled(r), oddEdit(r), edited(`{"metadata":{"annotations":{"note":"late"}},"spec":{"replicas":%d}}`, r.IntN(8))))
	}
	return append(steps,
		podsPatched(`{"metadata":{"annotations":{"parity/acts":"run"},"finalizers":null}}`),
		edited(`{"metadata":{"finalizers":null}}`),
		setPatched(0, `{"metadata":{"finalizers":null}}`), setPatched(1, `{"metadata":{"finalizers":null}}`))
}
