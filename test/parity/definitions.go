package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// widgetGroup is that of the kind Widget, which each of these programs has for itself.
const widgetGroup = self + ".example.com"

// definitionProgram defines a kind, whose objects own others, takes the definition back, and makes it anew.
func definitionProgram(r *rand.Rand) program {
	var p program
	add := func(s ...step) { p.steps = append(p.steps, s...) }
	early := chance(r, 2)
	if early { // its owner is of a kind that does not exist yet
		add(created("configmaps", widgetOwns("configmaps", "early", "w0", r)))
	}
	add(defined())
	if early {
		add(gone("configmaps", "early"))
	}
	for round := range 1 + r.IntN(2) {
		w := fmt.Sprintf("w%d", round+1)
		add(widgetMade(w, pick(r, "", "parity/keep", metav1.FinalizerDeleteDependents)))
		for i, resource := range []string{"configmaps", "secrets", "serviceaccounts"}[:1+r.IntN(3)] {
			add(hurried(created(resource, widgetOwns(resource, fmt.Sprintf("d%d-%d", round, i), w, r))))
		}
		add(waited(0))
		if chance(r, 2) {
			add(widgetDeleted(w, pick(r, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan)), released(w))
		}
		add(undefined(), released(w))
		add(withdrawn())
		if chance(r, 2) {
			add(defined())
		}
	}
	return p
}

// widgetOwns is an object that a Widget owns.
func widgetOwns(resource, name, widget string, r *rand.Rand) *unstructured.Unstructured {
	u := named(owned[resource].APIVersion, owned[resource].Kind, name)
	ref := map[string]any{"apiVersion": widgetGroup + "/v1", "kind": "Widget", "name": widget, "uid": "$uid(widgets/" + widget + ")"}
	if chance(r, 2) {
		ref["blockOwnerDeletion"] = true
	}
	u.Object["metadata"].(map[string]any)["ownerReferences"] = []any{ref}
	return u
}

func (s *subject) widgets() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: s.fill(widgetGroup), Version: "v1", Resource: "widgets"}
}

// defined is the step that defines the kind, if it is not defined, and waits until the managers must have learned of it.
func defined() step {
	return slow(step{
		text: "define Widget",
		do: func(ctx context.Context, s *subject) error {
			_, err := s.any.Resource(definitions).Create(ctx, definition(s.fill(widgetGroup), "Widget", "Namespaced"), metav1.CreateOptions{})
			if err != nil {
				return err
			}
			if err := eventually(ctx, time.Minute, func() (bool, error) {
				_, err := s.any.Resource(s.widgets()).List(ctx, metav1.ListOptions{})
				return err == nil, nil
			}); err != nil {
				return err
			}
			return waited(40*time.Second).do(ctx, s)
		},
	})
}

// undefined is the step that takes the definition back.
func undefined() step {
	return step{
		text: "delete the definition of Widget",
		do: func(ctx context.Context, s *subject) error {
			return s.any.Resource(definitions).Delete(ctx, "widgets."+s.fill(widgetGroup), metav1.DeleteOptions{})
		},
	}
}

// withdrawn waits until the definition is gone, and the managers must have noticed.
func withdrawn() step {
	return slow(step{
		text: "wait for the definition to be gone",
		do: func(ctx context.Context, s *subject) error {
			if err := eventually(ctx, time.Minute, func() (bool, error) {
				_, err := s.any.Resource(definitions).Get(ctx, "widgets."+s.fill(widgetGroup), metav1.GetOptions{})
				return apierrors.IsNotFound(err), nil
			}); err != nil {
				return err
			}
			return waited(40*time.Second).do(ctx, s)
		},
	})
}

func widgetMade(name, finalizer string) step {
	return step{
		text: fmt.Sprintf("create Widget %s %s", name, finalizer),
		do: func(ctx context.Context, s *subject) error {
			u := named(s.fill(widgetGroup)+"/v1", "Widget", name)
			if finalizer != "" {
				u.SetFinalizers([]string{finalizer})
			}
			u, err := s.any.Resource(s.widgets()).Namespace(s.namespace).Create(ctx, u, metav1.CreateOptions{})
			if err == nil {
				s.uids["widgets/"+name] = string(u.GetUID())
			}
			return err
		},
	}
}

func widgetDeleted(name string, policy metav1.DeletionPropagation) step {
	return slow(step{
		text: fmt.Sprintf("delete Widget %s %s", name, policy),
		do: func(ctx context.Context, s *subject) error {
			return s.any.Resource(s.widgets()).Namespace(s.namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &policy})
		},
	})
}

// released removes the program's finalizer from a Widget, which may be gone.
func released(name string) step {
	return slow(step{
		text: "release Widget " + name,
		do: func(ctx context.Context, s *subject) error {
			where := s.any.Resource(s.widgets()).Namespace(s.namespace)
			u, err := where.Get(ctx, name, metav1.GetOptions{})
			if err != nil || len(u.GetFinalizers()) == 0 || !ours(u.GetFinalizers()[0]) {
				return nil
			}
			_, err = where.Patch(ctx, name, types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/finalizers/0"}]`), metav1.PatchOptions{})
			return err
		},
	})
}

// gone waits for the end of an object.
func gone(resource, name string) step {
	return step{
		text: fmt.Sprintf("wait for the end of %s %s", resource, name),
		do: func(ctx context.Context, s *subject) error {
			where, name := s.named(resource, name)
			return eventually(ctx, 90*time.Second, func() (bool, error) {
				_, err := where.Get(ctx, name, metav1.GetOptions{})
				return apierrors.IsNotFound(err), nil
			})
		},
	}
}
