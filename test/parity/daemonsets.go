package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A daemonPlan is what a program about a DaemonSet is drawn with.
type daemonPlan struct {
	nodes []string
	// mixed says that the nodes differ and are changed one by one. As upstream begins an update with any node, all updates have
	// to run to their end then. Otherwise all nodes are alike, and pods may get stuck.
	mixed bool
	surge bool
}

// daemonSetProgram rolls a DaemonSet on nodes of its own, changes nodes, and breaks pods.
func daemonSetProgram(r *rand.Rand) program {
	plan := daemonPlan{nodes: []string{"x1", "x2", "x3", "x4"}[:1+r.IntN(4)], mixed: chance(r, 2), surge: chance(r, 3)}
	if plan.mixed {
		plan.nodes = []string{"a1", "b1", "c1", "d1"}[:2+r.IntN(3)]
	}
	var p program
	for _, name := range plan.nodes {
		p.steps = append(p.steps, hurried(nodeMade(name, map[string]string{"tier": "1"})))
	}
	p.steps[len(p.steps)-1].now = false
	if chance(r, 6) {
		p.steps = append(p.steps, straySibling(r, plan))
	}
	if chance(r, 8) {
		p.steps = append(p.steps, noPods())
	}
	p.steps = append(p.steps, created("daemonsets", drawDaemonSet(r, plan)))
	for range 5 + r.IntN(5) {
		p.steps = append(p.steps, daemonSetStep(r, plan))
	}
	if chance(r, 2) {
		p.steps = append(p.steps, deleted("daemonsets", "ds", drawPropagation(r)))
		if chance(r, 2) {
			p.steps = append(p.steps, created("daemonsets", drawDaemonSet(r, plan)), daemonSetStep(r, plan), daemonSetStep(r, plan))
		}
	}
	return p
}

func drawDaemonSet(r *rand.Rand, plan daemonPlan) *appsv1.DaemonSet {
	acting := runs
	if !plan.mixed {
		acting = pick(r, runs, runs, stay, hang)
	}
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "ds"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "ds"}},
		Template: template("ds", acting),
	}}
	if chance(r, 4) {
		ds.Annotations = map[string]string{"team": "nodes"}
	}
	if chance(r, 6) {
		ds.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"mine", "other"}}}}
	}
	place(r, &ds.Spec.Template.Spec, plan)
	most := drawUnavailable(r)
	switch {
	case plan.surge:
		none := intstr.FromInt32(0)
		ds.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &none, MaxSurge: &most}
	case chance(r, 4):
		ds.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	case chance(r, 2):
		ds.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &most}
	}
	if chance(r, 3) {
		limit := int32(r.IntN(3))
		ds.Spec.RevisionHistoryLimit = &limit
	}
	if chance(r, 4) {
		ds.Spec.MinReadySeconds = 2
	}
	if chance(r, 12) {
		ds.Spec.Template.Spec.ServiceAccountName = "robot"
	}
	return ds
}

// place keeps a DaemonSet on the nodes of its program.
func place(r *rand.Rand, spec *corev1.PodSpec, plan daemonPlan) {
	spec.Tolerations = []corev1.Toleration{{Key: programLabel, Operator: corev1.TolerationOpExists}}
	if chance(r, 4) {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: "dirty", Operator: corev1.TolerationOpEqual, Value: "yes", Effect: pick(r, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)})
	}
	if chance(r, 6) {
		seconds := int64(5)
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
	}
	spec.HostNetwork = chance(r, 8)
	if spec.NodeSelector = map[string]string{programLabel: self}; chance(r, 4) {
		spec.NodeSelector["tier"] = "1"
	}
	if !plan.mixed || chance(r, 2) {
		return
	}
	in := func(key string, op corev1.NodeSelectorOperator, values ...string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}
	}
	one := self + "-" + plan.nodes[0]
	terms := pick(r,
		[]corev1.NodeSelectorTerm{{MatchFields: in(metav1.ObjectNameField, corev1.NodeSelectorOpIn, one)}},
		[]corev1.NodeSelectorTerm{{MatchFields: in(metav1.ObjectNameField, corev1.NodeSelectorOpNotIn, one)}},
		[]corev1.NodeSelectorTerm{{MatchExpressions: in("tier", corev1.NodeSelectorOpGt, "1")}, {MatchFields: in(metav1.ObjectNameField, corev1.NodeSelectorOpIn, one)}},
		[]corev1.NodeSelectorTerm{{MatchExpressions: in("tier", corev1.NodeSelectorOpExists)}},
		[]corev1.NodeSelectorTerm{{MatchExpressions: in("tier", corev1.NodeSelectorOpDoesNotExist)}, {MatchExpressions: in("tier", corev1.NodeSelectorOpNotIn, "1", "3")}},
		[]corev1.NodeSelectorTerm{{}, {MatchExpressions: in(corev1.LabelHostname, corev1.NodeSelectorOpIn, one)}},
	)
	preferred := []corev1.PreferredSchedulingTerm{{Weight: 5, Preference: corev1.NodeSelectorTerm{MatchExpressions: in("tier", corev1.NodeSelectorOpExists)}}}
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}, PreferredDuringSchedulingIgnoredDuringExecution: preferred}}
	if chance(r, 5) {
		spec.Affinity, spec.NodeName = nil, one
	}
}

// noPods is the step that creates a quota which refuses every pod. How many pods of several get into a larger one is settled, but
// not which.
func noPods() step {
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}
	return step{text: "create a quota of no pods", do: func(ctx context.Context, s *subject) error {
		if err := s.create(ctx, "resourcequotas", quota); err != nil {
			return err
		}
		return s.patch(ctx, "resourcequotas", "none", `{"status":{"hard":{"pods":"0"},"used":{"pods":"0"}}}`, "status")
	}}
}

// straySibling is the step that creates a pod which the DaemonSet adopts: on a node, or on none and never to be bound.
func straySibling(r *rand.Rand, plan daemonPlan) step {
	t := template(pick(r, "ds", "ds", "other"), runs)
	spec := t.Spec
	spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	if chance(r, 3) {
		spec.SchedulerName = "none"
	} else {
		spec.NodeName = self + "-" + plan.nodes[0]
	}
	return created("pods", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("stray-%d", r.IntN(3)), Labels: t.Labels, Annotations: t.Annotations}, Spec: spec})
}

func daemonSetStep(r *rand.Rand, plan daemonPlan) step {
	from := r.IntN(3)
	switch r.IntN(16) {
	case 0, 1, 2:
		return patched("daemonsets", "ds", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"fake:%d"}]}}}}`, 1+r.IntN(4))
	case 3:
		if !plan.mixed {
			return patched("daemonsets", "ds", `{"spec":{"template":{"metadata":{"annotations":{"parity/acts":"%s"}}}}}`, pick(r, runs, stay, hang))
		}
		return patched("daemonsets", "ds", `{"spec":{"template":{"spec":{"nodeSelector":{"tier":%s}}}}}`, pick(r, "null", `"1"`, `"2"`))
	case 4:
		return daemonStrategyStep(r, plan)
	case 5, 6:
		return acted(from, from+1+r.IntN(3), "become ready", ready)
	case 7:
		return daemonAilingStep(r, plan)
	case 8, 9:
		return daemonPodStep(r, plan)
	case 10, 11:
		return revisionStep(r, "daemonsets", "ds")
	case 12:
		status := pick(r, `{"collisionCount":2}`, `{"numberReady":7,"numberMisscheduled":2}`, `{"observedGeneration":0}`, `{"conditions":[{"type":"Mine","status":"True"}]}`)
		return patchedStatus("daemonsets", "ds", `{"status":%s}`, status)
	case 13:
		return daemonReliefStep(r)
	default:
		return daemonNodeStep(r, plan)
	}
}

func daemonStrategyStep(r *rand.Rand, plan daemonPlan) step {
	most := drawUnavailable(r)
	text := toJSON(most)
	switch r.IntN(5) {
	case 0:
		return patched("daemonsets", "ds", `{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}`)
	case 1, 2:
		if plan.surge {
			return patched("daemonsets", "ds", `{"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":%s,"maxUnavailable":0}}}}`, text)
		}
		return patched("daemonsets", "ds", `{"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":0,"maxUnavailable":%s}}}}`, text)
	case 3:
		return patched("daemonsets", "ds", `{"spec":{"minReadySeconds":%d}}`, r.IntN(4))
	default:
		return patched("daemonsets", "ds", `{"spec":{"revisionHistoryLimit":%d}}`, r.IntN(3))
	}
}

// daemonAilingStep lets pods end or be no longer ready. Under a surge none fails: upstream goes on creating pods beside one that
// waits for its back-off; see the README, "under a surge".
func daemonAilingStep(r *rand.Rand, plan daemonPlan) step {
	from := r.IntN(3)
	to := from + 1 + r.IntN(2)
	switch n := r.IntN(5); {
	case n == 0 && !plan.surge:
		return acted(from, to, "fail", failed(1))
	case n == 1:
		return acted(from, to, "succeed", succeeded)
	case n == 2:
		return acted(from, to, "are ready since no time", readySinceNoTime)
	default:
		return acted(from, to, "stop being ready", running)
	}
}

// daemonPodStep is what a user may do to a pod.
func daemonPodStep(r *rand.Rand, plan daemonPlan) step {
	at := r.IntN(3)
	change := func(patch string) step {
		one := everyPod()
		one.from, one.to = at, at+1
		return patchedPods(one, "%s", patch)
	}
	switch r.IntN(9) {
	case 0, 1:
		return podDeleted(at)
	case 2:
		return change(`{"metadata":{"labels":{"app":"mine"}}}`)
	case 3:
		return change(`{"metadata":{"labels":{"controller-revision-hash":` + pick(r, "null", `"abc"`) + `}}}`)
	case 4:
		return change(`{"metadata":{"labels":{"pod-template-generation":` + pick(r, "null", `"1"`, `"3"`, `"many"`) + `}}}`)
	case 5:
		return change(`{"metadata":{"ownerReferences":null}}`)
	case 6:
		if plan.mixed { // an update would wait for it
			return change(`{"metadata":{"labels":{"note":"1"}}}`)
		}
		return change(`{"metadata":{"finalizers":["parity/keep"]}}`)
	default:
		return straySibling(r, plan)
	}
}

func daemonReliefStep(r *rand.Rand) step {
	switch r.IntN(4) {
	case 0, 1:
		return relieved("daemonsets", "ds")
	case 2:
		return touched("daemonsets", "ds", "delete all quotas", removeQuotas)
	default:
		return touched("daemonsets", "ds", "create the service account robot", addRobot)
	}
}

// daemonNodeStep changes nodes, and wakes the DaemonSet, as upstream is late with its status; see the README, "a change of a node".
func daemonNodeStep(r *rand.Rand, plan daemonPlan) step {
	var names []string // all
	if plan.mixed {
		names = []string{pick(r, plan.nodes...)}
	}
	change := func(patch string) step {
		return touched("daemonsets", "ds", fmt.Sprintf("patch nodes %v: %s", names, patch), func(ctx context.Context, s *subject) error {
			return s.patchNodes(ctx, patch, names...)
		})
	}
	taint := func(key, value string, effect corev1.TaintEffect) step {
		return touched("daemonsets", "ds", fmt.Sprintf("taint nodes %v: %s=%s:%s", names, key, value, effect), func(ctx context.Context, s *subject) error {
			return s.patchNodes(ctx, fmt.Sprintf(`{"spec":{"taints":[{"key":%q,"value":%q,"effect":"NoSchedule"},{"key":%q,"value":%q,"effect":%q}]}}`, programLabel, s.namespace, key, value, effect), names...)
		})
	}
	switch r.IntN(11) {
	case 0:
		return change(`{"spec":{"unschedulable":true}}`)
	case 10:
		if plan.mixed && !plan.surge { // upstream stops at the node; see the README, "a node that is gone"
			return touched("daemonsets", "ds", "delete node "+names[0], func(ctx context.Context, s *subject) error {
				return s.delete(ctx, "nodes", self+"-"+names[0], "")
			})
		}
		fallthrough
	case 1:
		return change(`{"spec":{"unschedulable":null}}`)
	case 2, 3:
		return change(fmt.Sprintf(`{"metadata":{"labels":{"tier":%s}}}`, pick(r, "null", `"1"`, `"2"`, `"ten"`)))
	case 4:
		return taint("dirty", "yes", corev1.TaintEffectNoSchedule)
	case 5:
		return taint("dirty", pick(r, "yes", "no"), corev1.TaintEffectNoExecute)
	case 6:
		return taint(corev1.TaintNodeNetworkUnavailable, "", corev1.TaintEffectNoSchedule)
	case 7:
		return taint("dirty", "no", corev1.TaintEffectPreferNoSchedule)
	default:
		name := "x9"
		if plan.mixed {
			name = "z1"
		}
		return nodeMade(name, map[string]string{"tier": "1"})
	}
}

// patchNodes sends a JSON merge patch for nodes of the program; for all of them if none is named.
func (s *subject) patchNodes(ctx context.Context, patch string, names ...string) error {
	list, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: programLabel + "=" + s.namespace})
	if err != nil {
		return err
	}
	for _, n := range list.Items {
		if len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return s.namespace+"-"+name == n.Name }) {
			continue
		}
		if err := s.patch(ctx, "nodes", n.Name, patch); err != nil {
			return err
		}
	}
	return nil
}
