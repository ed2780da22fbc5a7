package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

type reconciler struct {
	live    *client.Client
	pods    cache.Store[*corev1.Pod]
	kinds   *kindList
	waiting *waitingSet
	seen    *sightings
	resync  time.Duration
}

// Reconcile takes a deleted namespace one pass further, and finalizes it when nothing is left. Before its grace is over
// only its pods are told to stop.
func (r *reconciler) Reconcile(ctx context.Context, cached *corev1.Namespace) (kit.Result, error) {
	if !terminating(cached) {
		r.waiting.done(cached.Name)
		r.seen.forget(cached.UID)
		return kit.Done, nil
	}
	now := time.Now()
	if r.seen.graceLeft(cached.UID, now) > 0 {
		err := r.stopPods(ctx, cached) // of many pods the server takes its time to delete them
		return kit.After(max(r.seen.graceLeft(cached.UID, time.Now()), soonest)), err
	}
	if due, waits := r.waiting.dueAt(cached.Name); waits && now.Before(due) && len(r.pods.List(cached.Name)) > 0 {
		return kit.After(due.Sub(now)), nil // some pods went, but not the last one
	}
	ns, err := client.Get[corev1.Namespace](ctx, r.live, kit.KeyOf(cached))
	if err != nil {
		return kit.Done, client.IgnoreNotFound(err)
	}
	if ns.UID != cached.UID || !terminating(ns) {
		return kit.Done, nil // one that has taken its place has a grace of its own
	}
	if ns, err = r.markTerminating(ctx, ns); err != nil {
		return kit.Done, err
	}
	p := r.purge(ctx, ns)
	next := nextLook(ns, p.estimate, time.Now(), r.resync)
	if p.podsLeft() {
		r.waiting.wait(ns.Name, time.Now().Add(next))
	} else {
		r.waiting.done(ns.Name)
	}
	if err := r.report(ctx, ns, p); err != nil {
		return kit.Done, errors.Join(p.err(), err)
	}
	switch {
	case p.err() != nil:
		return kit.Done, p.err()
	case p.estimate > 0:
		return kit.After(next), nil
	}
	return kit.Done, r.finalize(ctx, kit.KeyOf(ns), ns.UID)
}

// terminating reports whether a namespace is deleted and there is still somebody who keeps it.
func terminating(ns *corev1.Namespace) bool {
	return ns.DeletionTimestamp != nil && len(ns.Spec.Finalizers) > 0
}

func (r *reconciler) markTerminating(ctx context.Context, ns *corev1.Namespace) (*corev1.Namespace, error) {
	if ns.Status.Phase == corev1.NamespaceTerminating {
		return ns, nil
	}
	ns.Status.Phase = corev1.NamespaceTerminating
	updated, err := client.UpdateStatus(ctx, r.live, ns)
	if err != nil {
		return ns, client.IgnoreNotFound(fmt.Errorf("mark namespace %s as terminating: %w", ns.Name, err))
	}
	return updated, nil
}

// report writes the conditions that a pass has led to, if they differ. ns is ours: it came from the server.
func (r *reconciler) report(ctx context.Context, ns *corev1.Namespace, p *pass) error {
	if !setConditions(&ns.Status, p.conditions(), metav1.Now()) {
		return nil
	}
	if _, err := client.UpdateStatus(ctx, r.live, ns); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write conditions of namespace %s: %w", ns.Name, err))
	}
	return nil
}

// finalize takes our finalizer off a namespace that is empty.
func (r *reconciler) finalize(ctx context.Context, key kit.Key, uid types.UID) error {
	ns, err := client.Get[corev1.Namespace](ctx, r.live, key)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if ns.UID != uid {
		return nil
	}
	ns.Spec.Finalizers = slices.DeleteFunc(ns.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	if _, err := client.Update(ctx, r.live, ns, client.Subresource("finalize")); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("finalize namespace %s: %w", ns.Name, err))
	}
	r.seen.forget(uid)
	klog.FromContext(ctx).Info("Emptied and finalized namespace", "namespace", ns.Name, "took", time.Since(ns.DeletionTimestamp.Time).Round(time.Millisecond))
	return nil
}

// soonest is the shortest time between two looks at a namespace.
const soonest = 500 * time.Millisecond

// nextLook returns when to look again at a namespace that still has content: soon after its deletion often, later
// ever more rarely, and never later than half of what is left of the content's own time to go.
func nextLook(ns *corev1.Namespace, estimate time.Duration, now time.Time, resync time.Duration) time.Duration {
	age := now.Sub(ns.DeletionTimestamp.Time) - grace
	return max(soonest, min(age/2, estimate/2+time.Second, resync))
}
