package replicas

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/podctl"
	"orrery/kit"
)

// serve reconciles the object of a key, if there is one.
func (r *reconciler[T, P]) serve(ctx context.Context, key kit.Key) (kit.Result, error) {
	set, ok := r.sets.Get(key)
	if !ok {
		r.allowances.Forget(key)
		return kit.Done, nil
	}
	return r.Reconcile(ctx, set)
}

// Reconcile claims the object's pods, creates missing or deletes surplus ones, and writes the status if it has changed.
func (r *reconciler[T, P]) Reconcile(ctx context.Context, set P) (kit.Result, error) {
	spec := r.kind.Spec(set)
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err != nil {
		return kit.Done, kit.Terminal(fmt.Errorf("read selector of %s: %w", klog.KObj(set), err))
	}
	if selector.Empty() || spec.Template == nil {
		return kit.Done, kit.Terminal(fmt.Errorf("%s has no selector or no template", klog.KObj(set)))
	}
	pods, err := r.claim(ctx, set, selector)
	if err != nil {
		return kit.Done, err
	}
	var rest kit.Result
	var scaling error
	if set.GetDeletionTimestamp() == nil {
		rest, scaling = r.scale(ctx, set, spec, pods.active)
	}
	if kit.IsNotCalled(scaling) {
		return kit.Done, scaling // the process is stopping: the next leader writes the status
	}
	now := time.Now()
	status := r.statusOf(set, spec, pods, scaling, now)
	if err := r.report(ctx, set, spec, status); err != nil {
		return kit.Done, err
	}
	next := nextReconcile(spec, status.ReadyReplicas, status.AvailableReplicas, pods, now)
	if scaling != nil {
		return next, errors.Join(pods.unreleased, fmt.Errorf("bring %s to %d replicas: %w", klog.KObj(set), spec.Replicas, scaling))
	}
	return kit.Sooner(rest, next), pods.unreleased
}

// nextReconcile asks for a reconcile when the next pod has been ready for long enough.
func nextReconcile(spec Spec, ready, available int32, pods observed, now time.Time) kit.Result {
	if spec.MinReadySeconds <= 0 || ready == available {
		return kit.Done
	}
	wait, known := podctl.NextAvailable(pods.active, spec.MinReadySeconds, now)
	if !known {
		// A ready pod without the time of that is never available. Whether it still lacks the time is cheap to check.
		wait = time.Duration(spec.MinReadySeconds) * time.Second
	}
	return kit.After(wait)
}
