package garbagecollector

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAReferenceThatChangesAndKeepsItsUIDIsChecked: the owner of that UID has another name.
func TestAReferenceThatChangesAndKeepsItsUIDIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		owner := configMap("owner")
		l.add(owner)
		right, wrong := configMap("right", by(owner)), configMap("wrong", by(owner))
		l.add(right, wrong)
		l.start()
		l.Pass(time.Minute)
		l.kept(right, wrong)
		l.Get(t, wrong)
		wrong.OwnerReferences[0].Name = "nobody"
		l.Update(t, wrong)
		l.Pass(time.Minute)
		l.gone(wrong)
		l.kept(owner, right)
	})
}

// TestADependentThatComesWhileItsOwnerWaitsIsDeleted, even if nothing else of the owner's changes any more.
func TestADependentThatComesWhileItsOwnerWaitsIsDeleted(t *testing.T) {
	for _, mark := range []func(metav1.OwnerReference) metav1.OwnerReference{blocking, func(r metav1.OwnerReference) metav1.OwnerReference { return r }} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t)
			owner := configMap("owner")
			l.add(owner)
			held, late := configMap("held", blocking(by(owner))), configMap("late")
			held.Finalizers = []string{"example.com/hold"}
			l.add(held, late)
			l.start()
			l.deleteIn(metav1.DeletePropagationForeground, owner)
			l.Pass(time.Minute)
			l.kept(owner, held, late)
			l.Get(t, late)
			late.OwnerReferences = []metav1.OwnerReference{mark(by(owner))}
			l.Update(t, late)
			l.Pass(time.Minute)
			l.gone(late)
			l.kept(owner, held)
		})
	}
}
