package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"orrery/test/faults/checker"
)

// family is the namespace of objects that own each other. Only the garbage collector deletes objects with an owner there.
const family = "faults-family"

// root is an owner that will be deleted.
type root struct {
	metav1.OwnerReference
	since time.Time
}

// owners creates trees of owners and dependents, of a built-in and a custom kind, and deletes their roots with all three
// propagation policies, some soon and some late, even while dependents are still being created.
func (d *driver) owners(ctx context.Context) error {
	if err := d.makeNamespace(ctx, family); err != nil {
		return err
	}
	pillar, err := d.plant(ctx, "pillar", false, nil) // stays
	if err != nil {
		return err
	}
	var roots []root
	var deleted *metav1.OwnerReference // the last root that was deleted
	n := 0
	d.often(1200*time.Millisecond, func(ctx context.Context) error {
		if n++; len(roots) > 12 {
			return nil
		}
		name := fmt.Sprintf("tree-%d", n)
		r, err := d.plant(ctx, name, d.rand.IntN(2) == 0, nil)
		if err != nil {
			return err
		}
		roots = append(roots, root{r, time.Now()})
		return d.branches(ctx, name, r, pillar)
	})
	d.often(1500*time.Millisecond, func(ctx context.Context) error {
		if len(roots) == 0 {
			return nil
		}
		i := d.rand.IntN(len(roots))
		policy := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}[d.rand.IntN(3)]
		r := roots[i].OwnerReference
		if err := d.deleteOwner(ctx, r, policy); err != nil {
			return err
		}
		roots, deleted = slices.Delete(roots, i, i+1), &r
		return nil
	})
	d.often(2*time.Second, func(ctx context.Context) error { // a dependent that comes too late
		if deleted == nil {
			return nil
		}
		n++
		_, err := d.plant(ctx, fmt.Sprintf("late-%d", n), d.rand.IntN(2) == 0, []metav1.OwnerReference{*deleted})
		return err
	})
	return nil
}

// branches creates the dependents of a root, some with dependents of their own, some with a second
// owner, some with their root as a dependent.
func (d *driver) branches(ctx context.Context, name string, r, pillar metav1.OwnerReference) error {
	r.BlockOwnerDeletion = new(d.rand.IntN(3) > 0)
	circle := d.rand.IntN(6) == 0
	for i := range 1 + d.rand.IntN(5) {
		refs := []metav1.OwnerReference{r}
		if d.rand.IntN(4) == 0 {
			refs = append(refs, pillar)
		}
		branch, err := d.plant(ctx, fmt.Sprintf("%s-%d", name, i), d.rand.IntN(2) == 0, refs)
		if err != nil {
			return err
		}
		branch.BlockOwnerDeletion = new(true)
		if circle && i == 0 {
			if err := d.own(ctx, r, branch); err != nil {
				return err
			}
		}
		for k := range d.rand.IntN(3) {
			if _, err := d.plant(ctx, fmt.Sprintf("%s-%d-%d", name, i, k), d.rand.IntN(3) == 0, []metav1.OwnerReference{branch}); err != nil {
				return err
			}
		}
	}
	return nil
}

// plant creates an object with owners and returns a reference to it.
func (d *driver) plant(ctx context.Context, name string, custom bool, owners []metav1.OwnerReference) (metav1.OwnerReference, error) {
	m := metav1.ObjectMeta{Namespace: family, Name: name, OwnerReferences: owners}
	if len(owners) > 0 {
		m.Labels = map[string]string{checker.OnlyCollected: "true"}
	}
	uid, err := d.make(ctx, m, custom)
	if custom {
		return metav1.OwnerReference{APIVersion: widgets.GroupVersion().String(), Kind: "Widget", Name: name, UID: uid}, err
	}
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: uid}, err
}

// own makes an owner a dependent of one of its dependents, so that each waits for the other.
func (d *driver) own(ctx context.Context, o, owner metav1.OwnerReference) error {
	refs, err := json.Marshal([]metav1.OwnerReference{owner})
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"ownerReferences":%s}}`, refs)
	if o.Kind == "Widget" {
		_, err = d.any.Resource(widgets).Namespace(family).Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	_, err = d.api.CoreV1().ConfigMaps(family).Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// make creates a Widget or a ConfigMap.
func (d *driver) make(ctx context.Context, m metav1.ObjectMeta, custom bool) (types.UID, error) {
	if !custom {
		o, err := d.api.CoreV1().ConfigMaps(m.Namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: m}, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		return o.UID, nil
	}
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(widgets.GroupVersion().String())
	u.SetKind("Widget")
	u.SetName(m.Name)
	u.SetLabels(m.Labels)
	u.SetFinalizers(m.Finalizers)
	u.SetOwnerReferences(m.OwnerReferences)
	o, err := d.any.Resource(widgets).Namespace(m.Namespace).Create(ctx, u, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return o.GetUID(), nil
}

// deleteOwner deletes an owner.
func (d *driver) deleteOwner(ctx context.Context, r metav1.OwnerReference, policy metav1.DeletionPropagation) error {
	o := metav1.DeleteOptions{PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &r.UID}}
	if r.Kind == "Widget" {
		return d.any.Resource(widgets).Namespace(family).Delete(ctx, r.Name, o)
	}
	return d.api.CoreV1().ConfigMaps(family).Delete(ctx, r.Name, o)
}
