package ttlafterfinished

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/client"
)

type reconciler struct {
	live    *client.Client
	client  *client.Client
	metrics metrics
}

// Reconcile deletes a finished Job once its TTL has run out.
func (r *reconciler) Reconcile(ctx context.Context, job *batchv1.Job) (kit.Result, error) {
	if left, ok := ttlLeft(ctx, job, time.Now()); !ok || left > 0 {
		return kit.After(left), nil
	}
	// The cached TTL may be stale and a delete cannot be undone, so the Job is read from the server.
	fresh, err := client.Get[batchv1.Job](ctx, r.live, kit.KeyOf(job))
	if err != nil {
		return kit.Done, client.IgnoreNotFound(err)
	}
	if left, ok := ttlLeft(ctx, fresh, time.Now()); !ok || left > 0 {
		return kit.After(left), nil
	}
	if err := client.Delete(ctx, r.client, fresh, client.Foreground, client.IfUID(fresh.UID)); err != nil {
		return kit.Done, client.IgnoreNotFound(fmt.Errorf("delete expired job %s: %w", klog.KObj(fresh), err))
	}
	expired, _ := expiry(fresh)
	r.metrics.deletion.Observe(time.Since(expired).Seconds())
	klog.FromContext(ctx).Info("Deleted expired job", "job", klog.KObj(fresh))
	return kit.Done, nil
}
