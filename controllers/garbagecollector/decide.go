package garbagecollector

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// action is what happens to an object.
type action int

const (
	keep   action = iota // nothing
	strip                // it has an owner: references to others that are gone, or wait for it, are removed
	remove               // it has none: it is deleted
)

// plan is what happens to an object and how.
type plan struct {
	action action
	strip  []types.UID
	policy metav1.DeletionPropagation
	// waits says that an owner waits for the object, which in turn is deleted in the foreground.
	waits bool
}

// decide says what happens to an object with such owners. dependents is how many it has itself.
func decide(obj metav1.Object, o owners, dependents int) plan {
	if len(obj.GetOwnerReferences()) == 0 {
		return plan{}
	}
	if len(o.solid) > 0 {
		// A reference to an owner that waits goes too: the owner would wait for ever.
		lost := slices.Concat(o.dangling, o.waiting)
		if len(lost) == 0 {
			return plan{}
		}
		return plan{action: strip, strip: lost}
	}
	if len(o.waiting) > 0 && dependents > 0 {
		return plan{action: remove, policy: metav1.DeletePropagationForeground, waits: true}
	}
	return plan{action: remove, policy: policyOf(obj)}
}

// policyOf returns how an object is deleted that nobody waits for: as its finalizers ask, or in the background.
func policyOf(obj metav1.Object) metav1.DeletionPropagation {
	switch {
	case hasFinalizer(obj, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case hasFinalizer(obj, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

func hasFinalizer(obj metav1.Object, name string) bool {
	return slices.Contains(obj.GetFinalizers(), name)
}
