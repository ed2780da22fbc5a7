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

// sweep is the one key: everything that is due now.
type sweep struct{}

type reconciler struct {
	pods      cache.Store[*corev1.Pod]
	nodes     cache.Store[*corev1.Node]
	client    *client.Client
	live      *client.Client
	threshold int
	missing   map[string]time.Time // nodes that pods name and the cache lacks, and since when; the one worker's own
	metrics   metrics
}

// Reconcile removes what is due. A pod that could not be removed is due again at the next sweep, and a failure of one
// kind of removal does not keep the others back.
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
