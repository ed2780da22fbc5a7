package checker

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OnlyCollected is the label of objects with owners that only the garbage collector deletes.
const OnlyCollected = "only-collected"

// known is the number of seconds after which every working manager has seen an object, however its watches are disturbed.
const known = 20

// waitsForDependents reports whether an object is deleted in the foreground.
func waitsForDependents(o metav1.Object) bool {
	return going(o) && slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// checkCollected checks an object that is being deleted. If only the garbage collector deletes it, its owners must be
// removed, or be waiting for it.
func (c *Checker) checkCollected(o metav1.Object) {
	if len(o.GetOwnerReferences()) > 0 {
		c.collected++
	}
	if o.GetLabels()[OnlyCollected] == "" {
		return
	}
	switch {
	case c.orphans[o.GetUID()]:
		c.violated("orphan", o, nil, "it goes, and its owner was deleted without it")
	case len(o.GetOwnerReferences()) == 0:
		c.violated("collected", o, nil, "it goes, and had no owner to lose")
	}
	for _, ref := range o.GetOwnerReferences() {
		if owner := c.living[ref.UID]; owner != nil && !waitsForDependents(owner) {
			c.accuse(ref.UID, "collected", o, "it goes, and its owner %s is there", name(owner))
		}
	}
}

// noteDependents records what must happen to the dependents of an object that is being deleted.
func (c *Checker) noteDependents(o metav1.Object) {
	uid, orphans, waits := o.GetUID(), slices.Contains(o.GetFinalizers(), metav1.FinalizerOrphanDependents), waitsForDependents(o)
	if !going(o) {
		return
	}
	for d := range c.dependents[uid] {
		dependent := c.living[d]
		if dependent == nil || going(dependent) {
			continue
		}
		refs := dependent.GetOwnerReferences()
		// If owner and dependent are of the same kind, one watch shows both: whoever sees the deletion knows the dependent.
		sure := fmt.Sprintf("%T", o) == fmt.Sprintf("%T", dependent) || c.now.Unix()-c.seen[d] > known
		if orphans && len(refs) == 1 && sure && !waits {
			c.orphans[d] = true
		}
		// Only with the label: the owner of other dependents may be deleted once more, without waiting for them.
		if waits && sure && blocks(dependent, uid) && dependent.GetLabels()[OnlyCollected] != "" {
			c.waiting[uid] = append(c.waiting[uid], d)
		}
	}
}

// blocks reports whether an object must be removed before an owner that is deleted in the foreground.
func blocks(o metav1.Object, owner types.UID) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.UID == owner && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
	})
}

// checkForeground checks a removed object: if it was deleted in the foreground, nothing that blocked it may exist.
func (c *Checker) checkForeground(e Event) {
	uid := e.Object.GetUID()
	for _, d := range c.waiting[uid] {
		if o := c.living[d]; o != nil && blocks(o, uid) && !e.Listed {
			c.accuse(d, "foreground", e.Object, "it is gone before its dependent %s", name(o))
		}
	}
	delete(c.waiting, uid)
}
