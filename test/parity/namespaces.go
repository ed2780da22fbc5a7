package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// doomed is the namespace that a namespaceProgram deletes.
const doomed = self + "-x"

// namespaceProgram fills a namespace, deletes it, and lets go bit by bit of what holds it up.
func namespaceProgram(r *rand.Rand) program {
	ns := named("v1", "Namespace", doomed)
	if chance(r, 3) {
		ns.Object["spec"] = map[string]any{"finalizers": pick(r, []any{"parity/hold"}, []any{"parity/hold", "kubernetes"}, []any{"kubernetes", "parity/hold", "parity/more"})}
	}
	if chance(r, 4) {
		ns.SetFinalizers([]string{"parity/keep"})
	}
	p := program{steps: []step{collected(), hurried(created("namespaces", ns))}}
	var all []member
	for i := range 3 + r.IntN(9) {
		m := member{resource: pick(r, "configmaps", "secrets", "serviceaccounts", "pods", "pods", "things", "services", "replicasets"), namespace: doomed, name: fmt.Sprintf("o%d", i)}
		p.steps = append(p.steps, hurried(created(m.resource, m.content(r, all))))
		all = append(all, m)
	}
	p.steps[len(p.steps)-1].now = false
	if chance(r, 3) {
		m := pick(r, all...)
		p.steps = append(p.steps, deleted(m.resource, m.path(), pick(r, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan)))
	}
	p.steps = append(p.steps, emptied())
	for range 3 + r.IntN(5) {
		p.steps = append(p.steps, slow(namespaceStep(r, all)))
	}
	return p
}

// slow gives the managers the time that both take between two passes over a namespace.
func slow(s step) step {
	s.patience = 100 * time.Second
	return s
}

// content is an object of a namespace that is to go.
func (m member) content(r *rand.Rand, others []member) *unstructured.Unstructured {
	var u *unstructured.Unstructured
	switch m.resource {
	case "services":
		u = named("v1", "Service", m.name)
		u.SetNamespace(m.namespace)
		u.Object["spec"] = map[string]any{"clusterIP": "None", "ports": []any{map[string]any{"port": int64(80)}}}
	default:
		u = m.object(r, nil)
		u.SetFinalizers(nil)
	}
	if m.resource == "pods" {
		u.SetAnnotations(map[string]string{acts: pick(r, runs, runs, hang, stay, succeed, fail)})
	}
	if chance(r, 3) {
		u.SetFinalizers(pick(r, []string{"parity/keep"}, []string{"parity/keep"}, []string{"parity/keep", "parity/too"}, []string{metav1.FinalizerOrphanDependents}, []string{metav1.FinalizerDeleteDependents}))
	}
	if refs := ownersOf(r, m, owners(others)); len(refs) > 0 && chance(r, 2) {
		_ = unstructured.SetNestedSlice(u.Object, refs, "metadata", "ownerReferences")
	}
	return u
}

// owners returns those that the kinds of owned are known of.
func owners(all []member) (out []member) {
	for _, m := range all {
		if _, ok := owned[m.resource]; ok {
			out = append(out, m)
		}
	}
	return out
}

func namespaceStep(r *rand.Rand, all []member) step {
	m := pick(r, all...)
	switch r.IntN(10) {
	case 0, 1, 2:
		return patched(m.resource, m.path(), `{"metadata":{"finalizers":null}}`)
	case 3:
		return patched(m.resource, m.path(), `{"metadata":{"finalizers":["parity/too"]}}`)
	case 4:
		return step{
			text: "all pods go",
			do:   func(_ context.Context, s *subject) error { s.end(s.fill(doomed)); return nil },
		}
	case 5:
		return finalized(pick(r, [][]corev1.FinalizerName{{"parity/hold"}, {"parity/hold"}, {"kubernetes"}, {"kubernetes", "parity/hold"}}...))
	case 6:
		return patched("namespaces", doomed, `{"metadata":{"finalizers":%s}}`, pick(r, "null", `["parity/keep"]`))
	case 7:
		late := member{resource: "configmaps", namespace: doomed, name: "late"}
		return created(late.resource, late.content(r, nil))
	case 8:
		return created("namespaces", named("v1", "Namespace", doomed))
	default:
		return emptied()
	}
}

// finalized is the step in which somebody sets the finalizers of the namespace's spec.
func finalized(finalizers []corev1.FinalizerName) step {
	return step{
		text: fmt.Sprintf("finalizers of the spec: %v", finalizers),
		do: func(ctx context.Context, s *subject) error {
			ns, err := s.client.CoreV1().Namespaces().Get(ctx, s.fill(doomed), metav1.GetOptions{})
			if err != nil {
				return err
			}
			ns.ResourceVersion = ""
			ns.Spec.Finalizers = finalizers
			_, err = s.client.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{})
			return err
		},
	}
}

// emptied is the step that deletes the namespace and waits for the end of the first pass over it.
func emptied() step {
	return slow(step{
		text: "delete namespace " + doomed,
		do: func(ctx context.Context, s *subject) error {
			if err := s.delete(ctx, "namespaces", doomed, ""); err != nil {
				return err
			}
			return eventually(ctx, time.Minute, func() (bool, error) {
				ns, err := s.client.CoreV1().Namespaces().Get(ctx, s.fill(doomed), metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return true, nil
				}
				held := err == nil && len(ns.Spec.Finalizers) == 0
				return held || err == nil && len(ns.Status.Conditions) > 0, err
			})
		},
	})
}
