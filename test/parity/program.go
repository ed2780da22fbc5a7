package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A program is what one user does in a namespace of its own.
type program struct {
	name  string
	steps []step
}

// A step changes something in one of the two clusters. It runs once in each of them, at the same time, and must do the same
// in both: it draws nothing at random and picks pods by their order in subject.pods.
type step struct {
	text string // what it does and with which values; printed when the clusters differ after it
	do   func(ctx context.Context, s *subject) error
	// hurry is true if the next step may follow at once, as it does with -hurry; the clusters are compared after that.
	hurry bool
	// now is true if the next step follows at once in any case.
	now bool
	// patience is how long the clusters may take to become equal; 0 means the default.
	patience time.Duration
}

// A generator draws a program at random.
type generator func(r *rand.Rand) program

// generators returns all generators, by the name of what they are about.
func generators() map[string]generator {
	return map[string]generator{
		"account":               accountProgram,
		"budget":                budgetProgram,
		"cronjob":               cronJobProgram,
		"crowd":                 crowdProgram,
		"daemonset":             daemonSetProgram,
		"deployment":            deploymentProgram,
		"hints":                 hintsProgram,
		"job":                   jobProgram,
		"jobclaim":              jobClaimProgram,
		"jobstatus":             jobStatusProgram,
		"namespace":             namespaceProgram,
		"node":                  nodeProgram,
		"orphan":                orphanProgram,
		"owner":                 ownerProgram,
		"replicaset":            replicaSetProgram,
		"replicationcontroller": replicationControllerProgram,
		"service":               serviceProgram,
		"statefulset":           statefulSetProgram,
	}
}

// special returns the generators that have to be asked for, with what they need.
func special() map[string]generator {
	return map[string]generator{
		"definition": definitionProgram, // four minutes each
		"finished":   finishedProgram,   // -finished-pods=5 -parallel=1
	}
}

// draw returns n programs of the generators named, or of all, in turn.
func draw(seed uint64, n int, only []string) ([]program, error) {
	all := generators()
	names := only
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(all))
	}
	for name, generate := range special() {
		all[name] = generate
	}
	var out []program
	for i := range n {
		name := names[i%len(names)]
		generate, found := all[name]
		if !found {
			return nil, fmt.Errorf("no generator %q; there are %v", name, slices.Sorted(maps.Keys(all)))
		}
		p := generate(rand.New(rand.NewPCG(seed, uint64(i))))
		p.name = fmt.Sprintf("%s-%d", name, i)
		out = append(out, p)
	}
	return out, nil
}

// created is the step that creates an object.
func created(resource string, obj runtime.Object) step {
	text, err := json.Marshal(obj)
	if err != nil {
		panic(err) // it is of a type of the API
	}
	return step{
		text: fmt.Sprintf("create in %s %s", resource, text),
		do:   func(ctx context.Context, s *subject) error { return s.create(ctx, resource, obj) },
	}
}

// patched is the step that sends a JSON merge patch.
func patched(resource, name, format string, args ...any) step {
	patch := fmt.Sprintf(format, args...)
	return step{
		text: fmt.Sprintf("patch in %s %s %s", resource, name, patch),
		do:   func(ctx context.Context, s *subject) error { return s.patch(ctx, resource, name, patch) },
	}
}

// patchedStatus is the step that sends a JSON merge patch to an object's status.
func patchedStatus(resource, name, format string, args ...any) step {
	patch := fmt.Sprintf(format, args...)
	return step{
		text: fmt.Sprintf("patch in %s the status of %s %s", resource, name, patch),
		do:   func(ctx context.Context, s *subject) error { return s.patch(ctx, resource, name, patch, "status") },
	}
}

// deleted is the step that deletes an object with a policy, or with the server's own if that is empty.
func deleted(resource, name string, policy metav1.DeletionPropagation) step {
	return step{
		text: fmt.Sprintf("delete in %s %s %s", resource, name, policy),
		do:   func(ctx context.Context, s *subject) error { return s.delete(ctx, resource, name, policy) },
	}
}

// acted is the step in which the pods from..to, in the order of subject.pods, change their status.
func acted(from, to int, what string, change func(*corev1.Pod)) step {
	return step{
		text: fmt.Sprintf("pods %d to %d: %s", from, to-1, what),
		do:   func(ctx context.Context, s *subject) error { return s.act(ctx, from, to, change) },
	}
}

// which says which pods a step is about: those that match, and of them from..to in the order of subject.pods.
type which struct {
	what     string
	matches  func(*corev1.Pod) bool
	from, to int
}

// forEach is the step that does something with pods, one after the other.
func forEach(w which, what string, do func(ctx context.Context, s *subject, pod *corev1.Pod) error) step {
	return step{
		text: fmt.Sprintf("%s pods %d to %d: %s", w.what, w.from, w.to-1, what),
		do: func(ctx context.Context, s *subject) error {
			pods, err := s.pods(ctx)
			if err != nil {
				return err
			}
			pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return !w.matches(&pod) })
			for i := range pods[min(w.from, len(pods)):min(w.to, len(pods))] {
				if err := do(ctx, s, &pods[w.from+i]); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// podsReport is the step in which pods change their status.
func podsReport(w which, what string, change func(*corev1.Pod)) step {
	return forEach(w, what, func(ctx context.Context, s *subject, pod *corev1.Pod) error { return s.report(ctx, pod, change) })
}

// pick returns one of the choices.
func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

// chance is true in one of n cases.
func chance(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }
