package checker

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func configMap(name, label string, owners ...metav1.Object) *corev1.ConfigMap {
	m := &corev1.ConfigMap{ObjectMeta: meta(name)}
	if label != "" {
		m.Labels[label] = "true"
	}
	for _, o := range owners {
		m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{UID: o.GetUID(), Name: o.GetName(), BlockOwnerDeletion: new(true)})
	}
	return m
}

// leave marks an object as deleted, with a finalizer if it waits for something.
func leave(o metav1.Object, finalizers ...string) {
	o.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1_800_000_000, 0)})
	o.SetFinalizers(finalizers)
}

// inNamespace shows a namespace with a pod and a ConfigMap.
func inNamespace(w *world) (*corev1.Namespace, *corev1.Pod, *corev1.ConfigMap) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: types.UID("ns")}}
	p, m := &corev1.Pod{ObjectMeta: meta("p")}, configMap("m", OnlyNamespace)
	w.see(ns, p, m)
	return ns, p, m
}

func TestNamespaces(t *testing.T) {
	w := newWorld()
	ns, p, m := inNamespace(w)
	leave(ns)
	w.see(ns, deleted(p))
	w.gone(p, m)
	if got := fmt.Sprint(w.c.Unsettled()); got != "[Namespace /ns]" {
		t.Errorf("a namespace on its way: unsettled is %s", got)
	}
	w.gone(ns)
	w.expect(t, "pods, the rest, the namespace")
	if got := w.c.Unsettled(); len(got) > 0 {
		t.Errorf("all is gone: unsettled is %v", got)
	}

	w = newWorld()
	ns, p, m = inNamespace(w)
	leave(ns)
	w.see(ns, deleted(p))
	w.gone(m)
	w.expect(t, "nobody knows yet")
	w.gone(p)
	w.expect(t, "the pod was the last", "pods first")

	w = newWorld()
	ns, p, m = inNamespace(w)
	leave(ns)
	w.see(ns)
	w.gone(p, ns)
	w.c.Conclude()
	w.expect(t, "something is left", "namespace")
	w.gone(m)
	w.expect(t, "it goes after its namespace", "namespace")

	w = newWorld()
	_, _, m = inNamespace(w)
	w.gone(m)
	w.expect(t, "the namespace stays", "collected")
}

// TestMissedChanges has lists find missing what may have gone in good time.
func TestMissedChanges(t *testing.T) {
	w := newWorld()
	ns, p, m := inNamespace(w)
	leave(ns)
	w.see(ns)
	w.gone(p, ns)
	w.listed = true
	w.see(m) // as it was
	w.gone(m)
	w.c.Conclude()
	w.expect(t, "it may have gone before its namespace")

	w = newWorld()
	root := configMap("root", "")
	leaf := configMap("leaf", OnlyCollected, root)
	w.see(root, leaf)
	w.gone(leaf)
	w.listed = true
	w.gone(root)
	w.c.Conclude()
	w.expect(t, "it may have gone after its owner")
}

func TestOwners(t *testing.T) {
	w := newWorld()
	root, other := configMap("root", ""), configMap("other", "")
	leaf, both := configMap("leaf", OnlyCollected, root), configMap("both", OnlyCollected, root, other)
	w.see(root, other, leaf, both)
	w.gone(root)
	if got := fmt.Sprint(w.c.Unsettled()); got != "[ConfigMap ns/both ConfigMap ns/leaf]" {
		t.Errorf("unsettled is %s", got)
	}
	w.gone(leaf)
	w.expect(t, "one that has lost its owner")
	w.gone(both)
	w.c.Conclude()
	w.expect(t, "one that has lost one of two", "collected")

	w = newWorld()
	stray := configMap("stray", OnlyCollected)
	w.see(stray)
	w.gone(stray)
	w.expect(t, "one without owners", "collected")
}

func TestOrphans(t *testing.T) {
	w := newWorld()
	root := configMap("root", "")
	leaf := configMap("leaf", OnlyCollected, root)
	late := configMap("late", OnlyCollected, root)
	w.see(root, leaf)
	leave(root, metav1.FinalizerOrphanDependents)
	w.see(root, late)
	leaf.OwnerReferences = nil
	w.see(leaf)
	w.gone(root, late)
	w.expect(t, "one that came too late may go")
	w.gone(leaf)
	w.expect(t, "one that was there may not", "orphan")
}

func TestForeground(t *testing.T) {
	w := newWorld()
	root := configMap("root", "")
	leaf, free := configMap("leaf", OnlyCollected, root), configMap("free", OnlyCollected, root)
	free.OwnerReferences[0].BlockOwnerDeletion = nil
	w.see(root, leaf, free)
	leave(root, metav1.FinalizerDeleteDependents)
	w.see(root)
	w.gone(leaf, root, free)
	w.c.Conclude()
	w.expect(t, "the owner goes after what blocks it")

	w = newWorld()
	w.see(configMap("root", ""), configMap("leaf", OnlyCollected, root))
	w.see(root)
	w.gone(root, leaf)
	w.expect(t, "the owner goes before what blocks it", "foreground")
}
