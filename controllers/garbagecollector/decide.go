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
	strip                // it has an owner: references to other owners that are gone, or wait for it, are removed
	remove               // it has no owner: it is deleted
)

// plan is what happens to an object and how.
type plan struct {
	action action
	strip  []types.UID
	policy metav1.DeletionPropagation
	// waits says that an owner waits for the object, which in turn is deleted in the foreground.
	waits bool
}

// decide returns what to do with an object, given the state of its owners and the number of its own dependents.
func decide(obj metav1.Object, o owners, dependents int) plan {
	if len(obj.GetOwnerReferences()) == 0 {
		return plan{}
	}
	if len(o.solid) > 0 {
		// References to waiting owners are removed, too: those would wait for ever for an object that stays.
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

// policyOf returns the propagation policy for an object that no owner waits for: that of its finalizers, or background.
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
