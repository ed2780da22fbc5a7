package podgc

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/podstatus"
	"orrery/kit"
	"orrery/kit/client"
)

// remove marks pods that have not ended as failed, and deletes all.
func (r *reconciler) remove(ctx context.Context, due []removal, now time.Time) error {
	return kit.Batch(ctx, len(due), parallelism, func(ctx context.Context, i int) error {
		d := due[i]
		err := r.removeOne(ctx, d, now)
		r.metrics.deletions.WithLabelValues(d.pod.Namespace, d.reason).Inc()
		if err != nil {
			r.metrics.errors.WithLabelValues(d.pod.Namespace, d.reason).Inc()
			return err
		}
		klog.FromContext(ctx).Info("Removed pod", "pod", klog.KObj(d.pod), "reason", d.reason, "node", d.pod.Spec.NodeName)
		return nil
	})
}

func (r *reconciler) removeOne(ctx context.Context, d removal, now time.Time) error {
	if !ended(d.pod) {
		change := podstatus.Change{Phase: corev1.PodFailed}
		if d.condition != nil {
			condition := *d.condition
			condition.ObservedGeneration = d.pod.Generation
			change.Conditions = []corev1.PodCondition{condition}
		}
		patch, needed, err := podstatus.Patch(d.pod, change, now)
		if err != nil {
			return fmt.Errorf("mark pod %s as failed: %w", klog.KObj(d.pod), err)
		}
		if needed {
			if _, err := client.PatchObject(ctx, r.client, d.pod, patch, client.Status, client.Brief); err != nil {
				return ignoreGone(fmt.Errorf("mark pod %s as failed: %w", klog.KObj(d.pod), err))
			}
		}
	}
	if err := client.Delete(ctx, r.client, d.pod, client.GracePeriod(0), client.IfUID(d.pod.UID)); err != nil {
		return ignoreGone(fmt.Errorf("delete pod %s: %w", klog.KObj(d.pod), err))
	}
	return nil
}

// ignoreGone ignores errors which mean that the pod no longer exists, or was replaced by one of the same name.
func ignoreGone(err error) error {
	return client.IgnoreNotFound(client.IgnoreConflict(err))
}
