package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// Reconcile makes one pass over a deleted namespace, and finalizes it when nothing is left. During its grace it only
// deletes the pods and the events.
func (r *reconciler) Reconcile(ctx context.Context, cached *corev1.Namespace) (kit.Result, error) {
	if !terminating(cached) {
		r.waiting.done(cached.Name)
		r.seen.forget(cached.UID)
		return kit.Done, nil
	}
	now := time.Now()
	if left := r.seen.graceLeft(cached.UID, now); left > 0 {
		err := r.useGrace(ctx, cached, left) // may take some time, so what is left of the grace is asked for again
		return kit.After(max(r.seen.graceLeft(cached.UID, time.Now()), soonest)), err
	}
	if due, waits := r.waiting.dueAt(cached.Name); waits && now.Before(due) && len(r.pods.List(cached.Name)) > 0 {
		return kit.After(due.Sub(now)), nil // a pod is gone, but not the last one
	}
	ns, err := client.Get[corev1.Namespace](ctx, r.live, kit.KeyOf(cached))
	if err != nil {
		return kit.Done, client.IgnoreNotFound(err)
	}
	if ns.UID != cached.UID || !terminating(ns) {
		return kit.Done, nil // another namespace of this name has a grace of its own
	}
	if ns, err = r.markTerminating(ctx, ns); err != nil || ns == nil {
		return kit.Done, err
	}
	p := r.purge(ctx, ns)
	if kit.IsNotCalled(p.err()) {
		return kit.Done, p.err()
	}
	now = time.Now()
	next := nextReconcile(ns, p.estimate, now, -r.seen.graceLeft(ns.UID, now), r.resync)
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

// terminating reports whether a namespace has been deleted and still has finalizers in its spec.
func terminating(ns *corev1.Namespace) bool {
	return ns.DeletionTimestamp != nil && len(ns.Spec.Finalizers) > 0
}

// markTerminating sets the phase. It returns the namespace as stored, or nil if it is gone.
func (r *reconciler) markTerminating(ctx context.Context, ns *corev1.Namespace) (*corev1.Namespace, error) {
	name := ns.Name
	ns, err := r.writeStatus(ctx, ns, func(s *corev1.NamespaceStatus) bool {
		changed := s.Phase != corev1.NamespaceTerminating
		s.Phase = corev1.NamespaceTerminating
		return changed
	})
	if err != nil {
		return nil, fmt.Errorf("mark namespace %s as terminating: %w", name, err)
	}
	return ns, nil
}

// report writes the conditions of a pass, if they differ. It changes ns, which must not come from the cache.
func (r *reconciler) report(ctx context.Context, ns *corev1.Namespace, p *pass) error {
	_, err := r.writeStatus(ctx, ns, func(s *corev1.NamespaceStatus) bool { return setConditions(s, p.conditions(), metav1.Now()) })
	if err != nil {
		return fmt.Errorf("write conditions of namespace %s: %w", ns.Name, err)
	}
	return nil
}

// writeTries bounds the attempts of one reconcile to write a namespace that others write at the same time. A pass takes so
// long that repeating it after every conflict might never succeed.
const writeTries = 5

// writeStatus applies change to the status and writes it if change reports a difference. It returns the namespace as
// stored, or nil if it is gone, even if another one has its name by now.
func (r *reconciler) writeStatus(ctx context.Context, ns *corev1.Namespace, change func(*corev1.NamespaceStatus) bool) (*corev1.Namespace, error) {
	for try := 1; ; try++ {
		if !change(&ns.Status) {
			return ns, nil
		}
		updated, err := client.UpdateStatus(ctx, r.live, ns)
		switch {
		case err == nil:
			return updated, nil
		case !apierrors.IsConflict(err) || try == writeTries:
			return nil, client.IgnoreNotFound(err)
		}
		fresh, err := client.Get[corev1.Namespace](ctx, r.live, kit.KeyOf(ns))
		if err != nil || fresh.UID != ns.UID {
			return nil, client.IgnoreNotFound(err)
		}
		ns = fresh
	}
}

// finalize removes our finalizer from a namespace that is empty.
func (r *reconciler) finalize(ctx context.Context, key kit.Key, uid types.UID) error {
	for try := 1; ; try++ {
		ns, err := client.Get[corev1.Namespace](ctx, r.live, key)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		if ns.UID != uid {
			return nil
		}
		ns.Spec.Finalizers = slices.DeleteFunc(ns.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
		_, err = client.Update(ctx, r.live, ns, client.Subresource("finalize"))
		switch {
		case err == nil:
			r.seen.forget(uid)
			klog.FromContext(ctx).Info("Emptied and finalized namespace", "namespace", ns.Name, "took", time.Since(ns.DeletionTimestamp.Time).Round(time.Millisecond))
			return nil
		case !apierrors.IsConflict(err) || try == writeTries:
			return client.IgnoreNotFound(fmt.Errorf("finalize namespace %s: %w", ns.Name, err))
		}
	}
}

// soonest is the shortest time between two passes over a namespace.
const soonest = 500 * time.Millisecond

// nextReconcile returns the time until the next pass over a namespace that still has content: short after its deletion, then
// longer and longer, but not much more than half of the estimate for its content. waited is how long ago its grace ended by
// this process's own clock: the server's may be far ahead.
func nextReconcile(ns *corev1.Namespace, estimate time.Duration, now time.Time, waited, resync time.Duration) time.Duration {
	age := max(now.Sub(ns.DeletionTimestamp.Time)-grace, waited)
	return max(soonest, min(age/2, estimate/2+time.Second, resync))
}
