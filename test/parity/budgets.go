package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// budgetPlan is what a program about PodDisruptionBudgets knows about its objects.
type budgetPlan struct {
	r       *rand.Rand
	owners  []string // kinds of the workloads, of which there is one each, with its kind as name and as label app of its pods
	budgets int      // one for each workload, or one for all
	wide    bool     // one for all
}

// budgetProgram limits the disruptions of the pods of several owners. No pod has two budgets: see the first row of
// PodDisruptionBudgets in the README's differences.
func budgetProgram(r *rand.Rand) program {
	all := []string{"deployments", "replicasets", "replicationcontrollers", "statefulsets", "pods"}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	p := &budgetPlan{r: r, owners: all[:1+r.IntN(3)], wide: chance(r, 4)}
	// One at most of those without a scale: which of them a message is about is a matter of chance.
	scaled := chance(r, 2)
	if !scaled {
		p.owners[0] = pick(r, "jobs", "daemonsets", "configmaps")
	}
	p.budgets = len(p.owners)
	if p.wide {
		p.budgets = 1
	}
	var first []step
	for _, kind := range p.owners {
		first = append(first, p.workload(kind)...)
	}
	var second []step
	for i := range p.budgets {
		second = append(second, created("poddisruptionbudgets", p.newBudget(i)))
	}
	out := program{steps: []step{together(first...), together(second...)}}
	if scaled && chance(r, 2) { // otherwise the numbers from before the failure stay
		out.steps = []step{together(append(second, first...)...)}
	}
	for range 7 + r.IntN(5) {
		out.steps = append(out.steps, p.change())
	}
	return out
}

// workload returns the steps that create an owner and its pods.
func (p *budgetPlan) workload(kind string) []step {
	r := p.r
	pods := template(kind, pick(r, runs, runs, runs, stay, hang))
	meta, n := metav1.ObjectMeta{Name: kind}, new(int32(1+r.IntN(5)))
	selector := &metav1.LabelSelector{MatchLabels: pods.Labels}
	var obj runtime.Object
	switch kind {
	case "deployments":
		obj = &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: n, Selector: selector, Template: pods}}
	case "replicasets":
		obj = &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: n, Selector: selector, Template: pods}}
	case "replicationcontrollers":
		obj = &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Replicas: n, Selector: pods.Labels, Template: &pods}}
	case "statefulsets":
		obj = &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: n, Selector: selector, Template: pods, PodManagementPolicy: appsv1.ParallelPodManagement}}
	case "daemonsets":
		obj = &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: pods}}
	case "jobs":
		pods.Spec.RestartPolicy = corev1.RestartPolicyNever
		obj = &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Parallelism: n, Template: pods}}
	case "configmaps":
		return p.ownedByConfigMap(pods, int(*n))
	default:
		var steps []step
		for i := range *n {
			steps = append(steps, created("pods", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pods-%d", i), Labels: pods.Labels, Annotations: pods.Annotations}, Spec: pods.Spec}))
		}
		return steps
	}
	return []step{created(kind, obj)}
}

// ownedByConfigMap returns the steps that create pods with a controller that has no scale.
func (p *budgetPlan) ownedByConfigMap(pods corev1.PodTemplateSpec, n int) []step {
	steps := []step{created("configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "configmaps"}})}
	for i := range n {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("configmaps-%d", i), Labels: pods.Labels, Annotations: pods.Annotations}, Spec: pods.Spec}
		steps = append(steps, step{text: "create in pods " + pod.Name + " of a ConfigMap", do: func(ctx context.Context, s *subject) error {
			owner, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, "configmaps", metav1.GetOptions{})
			if err != nil {
				return err
			}
			child := pod.DeepCopy()
			child.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
			return s.create(ctx, "pods", child)
		}})
	}
	return steps
}

func share(r *rand.Rand) *intstr.IntOrString {
	v := pick(r, intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromInt32(3), intstr.FromInt32(2147483647),
		intstr.FromString("0%"), intstr.FromString("1%"), intstr.FromString("34%"), intstr.FromString("50%"), intstr.FromString("67%"), intstr.FromString("100%"))
	return &v
}

// newBudget draws the budget of workload number i, or of all of them.
func (p *budgetPlan) newBudget(i int) *policyv1.PodDisruptionBudget {
	r := p.r
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("b%d", i)}, Spec: policyv1.PodDisruptionBudgetSpec{
		Selector:                   p.selector(i),
		UnhealthyPodEvictionPolicy: pick(r, nil, new(policyv1.IfHealthyBudget), new(policyv1.AlwaysAllow)),
	}}
	switch r.IntN(8) {
	case 0:
	case 1, 2, 3:
		b.Spec.MinAvailable = share(r)
	default:
		b.Spec.MaxUnavailable = share(r)
	}
	return b
}

func (p *budgetPlan) selector(i int) *metav1.LabelSelector {
	r := p.r
	expression := func(op metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: op, Values: values}}}
	}
	if p.wide {
		return pick(r, &metav1.LabelSelector{}, expression(metav1.LabelSelectorOpExists), expression(metav1.LabelSelectorOpIn, p.owners...),
			expression(metav1.LabelSelectorOpNotIn, "nobody"), expression(metav1.LabelSelectorOpDoesNotExist), nil)
	}
	own := &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.owners[i]}}
	return pick(r, own, own, own, own, expression(metav1.LabelSelectorOpIn, p.owners[i], "nobody"), &metav1.LabelSelector{MatchLabels: map[string]string{"app": "nobody"}})
}

// change draws a change of a budget, of a workload or of pods.
func (p *budgetPlan) change() step {
	r := p.r
	i := r.IntN(p.budgets)
	name := fmt.Sprintf("b%d", i)
	from := r.IntN(8)
	switch r.IntN(12) {
	case 0:
		return patched("poddisruptionbudgets", name, `{"spec":{"minAvailable":%s,"maxUnavailable":null}}`, toJSON(share(r)))
	case 1:
		return patched("poddisruptionbudgets", name, `{"spec":{"maxUnavailable":%s,"minAvailable":null}}`, toJSON(share(r)))
	case 2:
		return patched("poddisruptionbudgets", name, `{"spec":%s}`, pick(r, `{"minAvailable":null,"maxUnavailable":null}`, `{"unhealthyPodEvictionPolicy":"AlwaysAllow"}`, `{"unhealthyPodEvictionPolicy":null}`))
	case 3:
		return recreated("poddisruptionbudgets", p.newBudget(i), "")
	case 4:
		return p.changeOfStatus(name)
	case 5, 6:
		return evictionAsked(from)
	case 7:
		return acted(from, from+1+r.IntN(2), "lose readiness", running)
	case 8:
		return acted(from, from+1+r.IntN(3), "become ready", ready)
	case 9:
		return acted(from, from+1, "fail", failed(1))
	default:
		return p.changeOfWorkload()
	}
}

// changeOfStatus draws what somebody else writes to a budget's status, or to the conditions of a pod.
func (p *budgetPlan) changeOfStatus(name string) step {
	r := p.r
	if chance(r, 2) {
		return patchedStatus("poddisruptionbudgets", name, `{"status":%s}`, pick(r, `{"disruptionsAllowed":5}`, `{"conditions":[]}`, `{"observedGeneration":99}`,
			`{"expectedPods":7,"currentHealthy":7}`, `{"disruptedPods":{"ghost":"2026-01-02T03:04:05Z"}}`, `{"conditions":[{"type":"Odd","status":"True","reason":"X","message":"","lastTransitionTime":"2026-01-02T03:04:05Z"}]}`,
			`{"conditions":[{"type":"DisruptionAllowed","status":"Unknown","reason":"X","message":"y","lastTransitionTime":"2026-01-02T03:04:05Z"}]}`))
	}
	ago := pick(r, 0, 115*time.Second, 118*time.Second, 3*time.Minute, -time.Minute)
	if chance(r, 2) {
		return p.disrupted(name, ago)
	}
	condition := func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
			LastTransitionTime: metav1.NewTime(time.Now().Add(-ago)),
		})
	}
	if chance(r, 3) {
		condition = func(pod *corev1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, LastTransitionTime: metav1.NewTime(time.Now().Add(-ago)),
			})
		}
	}
	from := r.IntN(5)
	return acted(from, from+1, fmt.Sprintf("are marked as disrupted %s ago", ago), func(pod *corev1.Pod) {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.DisruptionTarget {
				return
			}
		}
		condition(pod)
	})
}

// disrupted is the step that lists a pod as evicted in a budget's status.
func (p *budgetPlan) disrupted(budget string, ago time.Duration) step {
	pod := pick(p.r, "pods-0", "statefulsets-0", "configmaps-0", "pods-1", "statefulsets-1")
	return step{text: fmt.Sprintf("list pod %s in %s as evicted %s ago", pod, budget, ago), do: func(ctx context.Context, s *subject) error {
		at := time.Now().Add(-ago).UTC().Format(time.RFC3339)
		return s.patch(ctx, "poddisruptionbudgets", budget, fmt.Sprintf(`{"status":{"disruptedPods":{%q:%q}}}`, pod, at), "status")
	}}
}

// changeOfWorkload draws another scale of a workload, its deletion, or a pod that leaves it.
func (p *budgetPlan) changeOfWorkload() step {
	r := p.r
	kind := pick(r, p.owners...)
	switch {
	case kind == "pods" || kind == "configmaps":
		return deleted("pods", kind+"-"+pick(r, "0", "1"), "")
	case chance(r, 4):
		return deleted(kind, kind, pick(r, metav1.DeletePropagationOrphan, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground))
	case kind == "jobs":
		return patched(kind, kind, `{"spec":{"suspend":%v}}`, chance(r, 2))
	case kind == "daemonsets":
		return patched(kind, kind, `{"spec":{"template":{"metadata":{"labels":{"more":"%d"}}}}}`, r.IntN(3))
	}
	return patched(kind, kind, `{"spec":{"replicas":%d}}`, r.IntN(6))
}

// evictionAsked is the step in which somebody asks for the eviction of pod number i in the order of subject.pods.
func evictionAsked(i int) step {
	return step{text: fmt.Sprintf("evict pod %d", i), do: func(ctx context.Context, s *subject) error {
		pods, err := s.pods(ctx)
		if err != nil || i >= len(pods) {
			return err
		}
		_, err = s.any.Resource(kinds["pods"]).Namespace(s.namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]any{"name": pods[i].Name},
		}}, metav1.CreateOptions{}, "eviction")
		return err
	}}
}
