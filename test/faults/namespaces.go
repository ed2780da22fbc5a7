package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/test/faults/checker"
)

const (
	brief  = "faults-brief-" // begins the names of namespaces that come and go
	holder = "faults.orrery/hold"
)

func (d *driver) makeNamespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := d.api.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make namespace: %w", err)
	}
	return nil
}

// namespaces creates namespaces and deletes them, some soon and some late. Meanwhile it keeps creating objects in them, some
// with a finalizer that is removed only after a while.
func (d *driver) namespaces(context.Context) error {
	n := 0
	var open, left []string // those that live, and those that were deleted a short while ago
	d.often(4*time.Second, func(ctx context.Context) error {
		if len(open) > 3 {
			return nil
		}
		n++
		name := fmt.Sprintf("%s%d", brief, n)
		if err := d.makeNamespace(ctx, name); err != nil {
			return err
		}
		open = append(open, name)
		return d.furnish(ctx, name)
	})
	d.often(4*time.Second, func(ctx context.Context) error {
		if len(open) == 0 {
			return nil
		}
		i := d.rand.IntN(len(open))
		if err := d.api.CoreV1().Namespaces().Delete(ctx, open[i], metav1.DeleteOptions{}); err != nil {
			return err
		}
		if left = append(left, open[i]); len(left) > 3 {
			left = left[1:]
		}
		open = slices.Delete(open, i, i+1)
		return nil
	})
	d.often(250*time.Millisecond, func(ctx context.Context) error { // also where it is refused
		names := slices.Concat(open, left)
		if len(names) == 0 {
			return nil
		}
		n++
		m := metav1.ObjectMeta{Namespace: names[d.rand.IntN(len(names))], Name: fmt.Sprintf("thing-%d", n), Labels: map[string]string{checker.OnlyNamespace: "true"}}
		if d.rand.IntN(3) == 0 {
			m.Finalizers = []string{holder}
		}
		_, err := d.make(ctx, m, d.rand.IntN(2) == 0)
		return err
	})
	d.often(2*time.Second, func(ctx context.Context) error { return d.removeFinalizers(ctx, 3) })
	return nil
}

// furnish creates workloads in a namespace.
func (d *driver) furnish(ctx context.Context, ns string) error {
	web := newDeployment("web", 3, "1", "1")
	web.Spec.Template.Annotations[terminateAfter] = "8s" // longer than any grace that a namespace is given
	if _, err := d.api.AppsV1().Deployments(ns).Create(ctx, web, metav1.CreateOptions{}); err != nil {
		return err
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "work"}, Spec: jobSpec("work", "5s", 2, 4)}
	if _, err := d.api.BatchV1().Jobs(ns).Create(ctx, job, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := d.api.PolicyV1().PodDisruptionBudgets(ns).Create(ctx, newBudget("web", "min", "2"), metav1.CreateOptions{})
	return err
}

// removeFinalizers removes the finalizer of about one in oneOf objects that are being deleted.
func (d *driver) removeFinalizers(ctx context.Context, oneOf int) error {
	var errs []error
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	maps, err := d.api.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{LabelSelector: checker.OnlyNamespace})
	if err != nil {
		return err
	}
	for _, o := range maps.Items {
		if o.DeletionTimestamp != nil && strings.HasPrefix(o.Namespace, brief) && d.rand.IntN(oneOf) == 0 {
			_, err := d.api.CoreV1().ConfigMaps(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			errs = append(errs, err)
		}
	}
	custom, err := d.any.Resource(widgets).List(ctx, metav1.ListOptions{LabelSelector: checker.OnlyNamespace})
	if err != nil {
		return err
	}
	for _, o := range custom.Items {
		if o.GetDeletionTimestamp() != nil && strings.HasPrefix(o.GetNamespace(), brief) && d.rand.IntN(oneOf) == 0 {
			_, err := d.any.Resource(widgets).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
			errs = append(errs, err)
		}
	}
	return errors.Join(slices.DeleteFunc(errs, apierrors.IsNotFound)...)
}
