package podgc

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

// sweep is the only key of the queue.
type sweep struct{}

type reconciler struct {
	pods      cache.Store[*corev1.Pod]
	nodes     cache.Store[*corev1.Node]
	client    *client.Client
	live      *client.Client
	threshold int
	missing   map[string]time.Time // nodes of pods that are not in the cache, and since when; used by the only worker
	metrics   metrics
}

// Reconcile does one sweep. A pod that could not be removed is tried again at the next one, and a failure of one kind of
// removal does not prevent the others.
func (r *reconciler) Reconcile(ctx context.Context, _ sweep) (kit.Result, error) {
	now := time.Now()
	var errs []error
	for _, find := range []func(context.Context, time.Time) ([]removal, error){
		r.excess, r.outOfService, r.orphaned, r.neverScheduled,
	} {
		due, err := find(ctx, now)
		errs = append(errs, err, r.remove(ctx, due, now))
	}
	return kit.Done, kit.Terminal(errors.Join(errs...))
}
