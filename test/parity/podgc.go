package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// orphanProgram deletes nodes with pods on them, and pods that no node ever had.
func orphanProgram(r *rand.Rand) program {
	var p program
	for _, name := range []string{"a", "b"} {
		p.steps = append(p.steps, hurried(nodeMade(name, nil)))
	}
	for i := range 5 + r.IntN(6) {
		pod := nodePod(r, fmt.Sprintf("p%d", i), pick(r, "a", "a", "a", "b", "never"), []int64{300})
		switch r.IntN(6) {
		case 0: // it waits for a node for ever
			pod.Spec.NodeName = ""
			pod.Spec.NodeSelector = map[string]string{"parity/none": ""}
		case 1:
			pod.Spec.NodeName = ""
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "parity/wait"}}
		}
		p.steps = append(p.steps, hurried(created("pods", pod)))
	}
	p.steps[len(p.steps)-1].now = false
	if chance(r, 2) {
		effect := pick(r, corev1.TaintEffectNoExecute, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule)
		p.steps = append(p.steps, tainted(self+"-a", "out of service "+string(effect), func(all []corev1.Taint) []corev1.Taint {
			return append(all, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: effect})
		}))
		p.steps = append(p.steps, reported(self+"-a", pick(r, "False", "Unknown", "True")))
	}
	for range 2 + r.IntN(3) {
		p.steps = append(p.steps, orphanStep(r))
	}
	p.steps = append(p.steps, deleted("nodes", self+"-a", ""), cleaned())
	if chance(r, 3) {
		p.steps = append(p.steps, nodeMade("a", nil))
	}
	p.steps = append(p.steps, orphanStep(r), orphanStep(r))
	return p
}

func orphanStep(r *rand.Rand) step {
	name := fmt.Sprintf("p%d", r.IntN(8))
	switch r.IntN(5) {
	case 0, 1:
		return cleanedAfter(deleted("pods", name, ""))
	case 2:
		return patched("pods", name, `{"metadata":{"finalizers":null}}`)
	case 3:
		return acted(r.IntN(3), 4, "end", succeeded)
	default:
		return acted(r.IntN(3), 4, "have no conditions", func(pod *corev1.Pod) { pod.Status.Conditions = nil })
	}
}

// cleanedAfter lets the pod collector run twice after a step.
func cleanedAfter(s step) step {
	do := s.do
	s.text += ", and wait for the collector"
	s.do = func(ctx context.Context, subject *subject) error {
		err := do(ctx, subject)
		_ = waited(22*time.Second).do(ctx, subject)
		return err
	}
	return s
}

// cleaned waits for the pods on nodes that do not exist to fail or go.
func cleaned() step {
	return step{
		text: "wait for the pods without a node to be collected",
		do: func(ctx context.Context, s *subject) error {
			return eventually(ctx, 2*time.Minute, func() (bool, error) {
				pods, err := s.pods(ctx)
				if err != nil {
					return false, err
				}
				nodes, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
				if err != nil {
					return false, err
				}
				here := map[string]bool{"": true}
				for _, n := range nodes.Items {
					here[n.Name] = true
				}
				for _, p := range pods {
					if !here[p.Spec.NodeName] && (p.DeletionTimestamp == nil || len(p.Finalizers) == 0) {
						return false, nil
					}
				}
				return true, nil
			})
		},
		patience: time.Minute,
	}
}

// finishedProgram lets many pods end; it is for -finished-pods, and to be run alone: the managers count the pods of all programs.
func finishedProgram(r *rand.Rand) program {
	var p program
	for i := range 6 + r.IntN(8) {
		t := template("x", stay)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", (i*7)%16), Annotations: t.Annotations}, Spec: t.Spec}
		if chance(r, 4) {
			pod.Finalizers = []string{"parity/keep"}
		}
		p.steps = append(p.steps, hurried(created("pods", pod)), hurried(waited(time.Duration(r.IntN(3)*600)*time.Millisecond)))
	}
	p.steps = append(p.steps, waited(time.Second), cleanedAfter(acted(0, 20, "end", pick(r, succeeded, failed(1)))))
	for range 3 {
		n := r.IntN(10)
		p.steps = append(p.steps, cleanedAfter(pick(r, patched("pods", fmt.Sprintf("p%d", n), `{"metadata":{"finalizers":null}}`), deleted("pods", fmt.Sprintf("p%d", n), ""))))
	}
	return p
}
