package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const deletionCost = corev1.PodDeletionCost

// A replicated is an object of replicated pods that a program works on: a ReplicaSet or a ReplicationController.
type replicated struct {
	r        *rand.Rand
	resource string
	name     string
	// object returns the object to create, with a template and a number of replicas.
	object func(name string, replicas int32, template corev1.PodTemplateSpec) runtime.Object
	// edits are patches of the object that only its kind takes.
	edits []string
	// marks counts the pods that a program has told apart from the others.
	marks int
}

func replicaSetProgram(r *rand.Rand) program {
	selector := pick(r,
		metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}, MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b"}},
		}},
		metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpExists},
			{Key: "tier", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"c"}},
			{Key: "extra", Operator: metav1.LabelSelectorOpDoesNotExist},
		}},
	)
	seconds := int32(pick(r, 0, 0, 0, 2))
	edits := []string{`{"spec":{"selector":{"matchLabels":{"app":"other"}}}}`}
	return (&replicated{r: r, resource: "replicasets", edits: edits, object: func(name string, replicas int32, template corev1.PodTemplateSpec) runtime.Object {
		return &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
			Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, MinReadySeconds: seconds, Selector: &selector, Template: template},
		}
	}}).program()
}

// program creates the object, plays some random steps with it, and often deletes it in the end.
func (g *replicated) program() program {
	r := g.r
	// Pods of a name with 63 characters and more have a cut one.
	g.name = pick(r, "web", "web", "web", "web", "w.x-y", strings.Repeat("w", 63), strings.Repeat("w", 120)+".x", strings.Repeat("w", 253))
	var p program
	if chance(r, 4) {
		for range 1 + r.IntN(2) {
			p.steps = append(p.steps, g.bare())
		}
	}
	p.steps = append(p.steps, g.start())
	for range 4 + r.IntN(4) {
		p.steps = append(p.steps, g.next()...)
	}
	if chance(r, 2) {
		p.steps = append(p.steps, g.end()...)
	}
	return p
}

// template is that of the object's pods.
func (g *replicated) template() corev1.PodTemplateSpec {
	r := g.r
	t := template("web", pick(r, runs, runs, runs, stay, hang, hang))
	t.Labels["tier"] = pick(r, "a", "b")
	switch r.IntN(12) {
	case 0:
		t.Spec.ServiceAccountName = "ghost"
	case 1:
		t.Spec.PriorityClassName = "ghost"
	case 2:
		t.Annotations[deletionCost] = pick(r, "7", "-5", "x", "+3", "007")
	case 3:
		t.Finalizers = []string{"parity/hold"}
	case 4:
		t.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "abc"
	case 5:
		t.Name, t.Namespace = "named", "elsewhere"
	}
	return t
}

func (g *replicated) start() step {
	return created(g.resource, g.object(g.name, int32(g.r.IntN(7)), g.template()))
}

// next draws one or more steps that belong together.
func (g *replicated) next() []step {
	r := g.r
	i := r.IntN(4)
	switch r.IntN(16) {
	case 0, 1:
		return []step{g.patched(`{"spec":{"replicas":%d}}`, r.IntN(9))}
	case 2, 3, 4:
		return []step{g.acted(i)}
	case 5:
		return []step{g.bare()}
	case 6:
		return []step{g.labelled(i)}
	case 7:
		return g.costly()
	case 8:
		return []step{podDeleted(i)}
	case 9, 10:
		return []step{g.edited()}
	case 11:
		return g.owned(i)
	case 12:
		return g.held(i)
	case 13:
		return g.limited()
	case 14:
		return []step{g.told()}
	default:
		return append(g.end(), g.start(), podsPatched(`{"metadata":{"annotations":{"parity/acts":"run"},"finalizers":null}}`))
	}
}

func (g *replicated) patched(format string, args ...any) step {
	return patched(g.resource, g.name, format, args...)
}

// acted lets some pods change their status.
func (g *replicated) acted(from int) step {
	to := from + 1 + g.r.IntN(3)
	switch g.r.IntN(8) {
	case 0, 1:
		return acted(from, to, "become ready", ready)
	case 2:
		return acted(from, to, "are not ready any more", running)
	case 3:
		return acted(from, to, "fail", failed(1))
	case 4:
		return acted(from, to, "succeed", succeeded)
	case 5:
		return acted(from, to, "are of unknown phase", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodUnknown })
	case 6:
		return g.marked(from, "loses its conditions", func(pod *corev1.Pod) { pod.Status.Conditions = nil })
	default:
		return g.marked(from, "is ready since an unknown time", readySinceNoTime)
	}
}

// mark returns an annotation that tells a pod from the others when some have to go.
func (g *replicated) mark() string {
	g.marks++
	return fmt.Sprintf(`"annotations":{%q:"%d"}`, deletionCost, pick(g.r, 1, -1)*g.marks)
}

// marked lets a pod change its status in a way that does not decide which pods have to go, and marks it.
func (g *replicated) marked(n int, what string, change func(*corev1.Pod)) step {
	mark := g.mark()
	return step{text: fmt.Sprintf("pod %d: %s, %s", n, what, mark), do: func(ctx context.Context, s *subject) error {
		pods, err := s.pods(ctx)
		if err != nil || n >= len(pods) {
			return err
		}
		if err := s.patch(ctx, "pods", pods[n].Name, fmt.Sprintf(`{"metadata":{%s}}`, mark)); err != nil {
			return err
		}
		return s.report(ctx, &pods[n], change)
	}}
}

// bare creates a pod that nobody controls, and that may be adopted.
func (g *replicated) bare() step {
	r := g.r
	g.marks++
	// None that hangs: it may have to go before it is bound, and goes at once then.
	t := template("web", pick(r, runs, stay, fail, succeed))
	t.Annotations[deletionCost] = fmt.Sprint(pick(r, 100, -100) * g.marks)
	t.Name = fmt.Sprintf("bare-%d", g.marks)
	switch r.IntN(6) {
	case 0:
		t.Labels = nil
	case 1:
		t.Labels["tier"] = "c"
	case 2:
		t.Labels["extra"] = "x"
	default:
		t.Labels["tier"] = "a"
	}
	pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	if chance(r, 4) {
		pod.Finalizers = []string{"parity/hold"}
	}
	if chance(r, 3) {
		return ownedBare(pod, chance(r, 2))
	}
	return created("pods", pod)
}

// labelled changes the labels of a pod, which may leave the object by that or come back.
func (g *replicated) labelled(i int) step {
	labels := pick(g.r, `{"app":null}`, `{"app":"other"}`, `{"app":"web","tier":"a","extra":null}`, `{"tier":"c"}`, `{"tier":"b"}`, `{"extra":"x"}`, `{"tier":null}`)
	return podPatched(i, `{"metadata":{"labels":%s,%s}}`, labels, g.mark())
}

// costly gives pods different costs and deletes some of them. One cost may be malformed, if the server takes it: it counts
// as 0, which no other pod has.
func (g *replicated) costly() []step {
	r := g.r
	costs := []string{"-2147483648", "-7", "5", "2147483647", "12", "-12", "9", "-9", "1", "-1"}
	costs[r.IntN(4)] = pick(r, "x", "1.5", "+4", "007", "2147483648", " 1", "0", "-0")
	r.Shuffle(len(costs), func(i, j int) { costs[i], costs[j] = costs[j], costs[i] })
	return []step{
		podsChanged("costs "+strings.Join(costs, ","), func(i int, _ corev1.Pod) string {
			text, err := json.Marshal(costs[i%len(costs)])
			if err != nil {
				panic(err) // it is a string
			}
			return fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, deletionCost, text)
		}),
		g.patched(`{"spec":{"replicas":%d}}`, r.IntN(4)),
	}
}

// edited changes the object.
func (g *replicated) edited() step {
	r := g.r
	return g.patched("%s", pick(r,
		fmt.Sprintf(`{"spec":{"minReadySeconds":%d}}`, r.IntN(4)),
		`{"spec":{"minReadySeconds":2147483647}}`,
		`{"spec":{"minReadySeconds":-1}}`,
		`{"spec":{"replicas":null}}`,
		`{"spec":{"replicas":-1}}`,
		pick(r, g.edits...),
		`{"spec":{"template":{"metadata":{"labels":{"more":"1"}}}}}`,
		`{"spec":{"template":{"metadata":{"labels":{"more":null}}}}}`,
		`{"spec":{"template":{"metadata":{"labels":{"tier":"a"}}}}}`,
		`{"spec":{"template":{"metadata":{"annotations":{"parity/acts":"stay"},"finalizers":["parity/hold"]}}}}`,
		`{"spec":{"template":{"metadata":{"annotations":{"parity/acts":"run"},"finalizers":null}}}}`,
		`{"spec":{"template":{"spec":{"priorityClassName":null,"priority":null,"serviceAccountName":null,"serviceAccount":null}}}}`,
		`{"spec":{"template":{"spec":{"priorityClassName":"ghost"}}}}`,
		`{"metadata":{"labels":{"more":"1"},"annotations":{"note":"1"}}}`,
		`{"metadata":{"finalizers":["parity/hold"]}}`,
		`{"metadata":{"finalizers":null}}`,
	))
}

// owned changes the owners of a pod or of the object.
func (g *replicated) owned(i int) []step {
	mark := g.mark()
	switch g.r.IntN(5) {
	case 0:
		return []step{podPatched(i, `{"metadata":{"ownerReferences":null,%s}}`, mark)}
	case 1:
		return []step{podRefChanged(i, mark, "is not the controller", func(ref map[string]any) { ref["controller"] = false })}
	case 2:
		return []step{podRefChanged(i, mark, "blocks nothing", func(ref map[string]any) { delete(ref, "blockOwnerDeletion") })}
	case 3:
		return []step{givenOwner("pods", "", i, mark, true)}
	default:
		return []step{givenOwner(g.resource, g.name, 0, `"annotations":{"note":"owned"}`, chance(g.r, 2))}
	}
}

// held deletes a pod with a finalizer and lets it go later.
func (g *replicated) held(i int) []step {
	steps := []step{
		podPatched(i, `{"metadata":{"finalizers":["parity/hold"],%s}}`, g.mark()),
		podDeleted(i),
		g.acted(i),
	}
	if chance(g.r, 2) {
		steps = append(steps, podsPatched(`{"metadata":{"finalizers":null}}`))
	}
	return steps
}

// limited lets only some more pods be created, and lifts the limit.
func (g *replicated) limited() []step {
	r := g.r
	steps := []step{
		quota(r.IntN(4)),
		g.patched(`{"spec":{"replicas":%d}}`, 2+r.IntN(9)),
	}
	if chance(r, 2) {
		steps = append(steps, podDeleted(r.IntN(3)))
	}
	return append(steps, quota(1000), g.patched(`{"metadata":{"annotations":{"note":"%d"}}}`, r.IntN(1000)))
}

// told changes the status of the object, which has to be put right.
func (g *replicated) told() step {
	status := pick(g.r,
		`{"replicas":99,"readyReplicas":99,"availableReplicas":99,"fullyLabeledReplicas":99}`,
		`{"replicas":0,"readyReplicas":0,"availableReplicas":0,"fullyLabeledReplicas":0}`,
		`{"conditions":[{"type":"ReplicaFailure","status":"True","reason":"Said","message":"so"}]}`,
		`{"conditions":[{"type":"Odd","status":"Unknown"},{"type":"ReplicaFailure","status":"False","reason":"Said"}]}`,
		`{"observedGeneration":0}`,
		`{"observedGeneration":1000}`,
		`{"terminatingReplicas":5}`,
	)
	return patchedStatus(g.resource, g.name, `{"status":%s}`, status)
}

// end deletes the object.
func (g *replicated) end() []step {
	r := g.r
	steps := []step{deleted(g.resource, g.name, pick(r, "", metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground, metav1.DeletePropagationBackground))}
	if chance(r, 2) {
		steps = append(steps, g.acted(r.IntN(3)))
	}
	if chance(r, 3) {
		steps = append(steps, g.labelled(r.IntN(3)))
	}
	if chance(r, 3) {
		steps = append(steps, g.bare())
	}
	return append(steps,
		podsPatched(`{"metadata":{"annotations":{"parity/acts":"run"},"finalizers":null}}`),
		g.patched(`{"metadata":{"finalizers":null}}`))
}
