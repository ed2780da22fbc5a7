package garbagecollector

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"orrery/controllers/garbagecollector/graph"
	"orrery/kit"
)

type reconciler struct {
	graph    *graph.Graph
	known    *knowledge
	api      api
	check    func(graph.Ref, time.Duration) // enqueues an object
	orphan   func(graph.Ref)                // enqueues an owner whose dependents are to be released
	whole    func() bool                    // see kinds.whole
	recorder record.EventRecorder
}

const (
	// lookSoon is the time until the next reconcile of an owner that has to wait because the graph is not whole.
	lookSoon = 200 * time.Millisecond
	// lookAgain is the time until the next reconcile of an object from which the last finalizer has been removed. Usually it
	// is gone by then. It is not if the same deletion was requested once more while the watch that would show that was broken.
	lookAgain = time.Minute
)

// Reconcile checks one object of the graph: whether it exists, whether it still has an owner, and whether the dependents
// that it waits for are gone.
func (r *reconciler) Reconcile(ctx context.Context, key graph.Ref) (kit.Result, error) {
	n, ok := r.graph.View(key.UID)
	var err error
	switch {
	case !ok:
		return kit.Done, nil
	case n.Virtual && n.Ref != key:
		return kit.Done, nil // the node is known by another name now, and reconciled under that
	case n.Virtual:
		return r.verify(ctx, n.Ref)
	case n.Foreground && n.Blockers == 0 && !r.whole():
		return kit.After(lookSoon), nil
	case n.Foreground:
		if err = r.finish(ctx, n); err == nil && n.Blockers == 0 {
			return kit.After(lookAgain), nil
		}
	case n.Orphaning:
		r.orphan(n.Ref)
		return kit.Done, nil
	case n.Deleting:
		return kit.Done, nil // its dependents are reconciled once it is gone
	default:
		err = r.collect(ctx, n)
	}
	return r.settle(ctx, n.Ref, err)
}

// reconcileOrphan releases the dependents of an owner that is deleted with the orphan policy, and then the owner.
func (r *reconciler) reconcileOrphan(ctx context.Context, key graph.Ref) (kit.Result, error) {
	n, ok := r.graph.View(key.UID)
	switch {
	case !ok:
		return kit.Done, nil
	case !r.whole():
		return kit.After(lookSoon), nil
	}
	err := r.release(ctx, n.Ref)
	if err == nil {
		r.check(n.Ref, lookAgain)
	}
	return r.settle(ctx, n.Ref, err)
}

// verify reads an owner that no watch has shown, again and again until a watch shows it or it is found to be gone: it may
// have been created and deleted while no watch was open.
func (r *reconciler) verify(ctx context.Context, ref graph.Ref) (kit.Result, error) {
	as, gone, recent := r.known.goneAs(ref)
	if recent {
		return r.settle(ctx, as, absentError{as})
	}
	ref, err := r.place(ref)
	if err == nil {
		_, err = r.read(ctx, ref)
	}
	switch {
	case err == nil:
		return kit.After(r.graph.Pause(ref.UID).After), nil
	case gone && unserved(err):
		return r.settle(ctx, as, absentError{as}) // it went before its kind did
	}
	return r.settle(ctx, ref, err)
}

// settle turns the outcome of a reconcile into a result. Some errors are no failures.
func (r *reconciler) settle(ctx context.Context, ref graph.Ref, err error) (kit.Result, error) {
	log := klog.FromContext(ctx)
	switch {
	case err == nil:
		return kit.Done, nil
	case errors.Is(err, errMisplaced):
		log.V(2).Info("A cluster-scoped object refers to a namespaced owner, which cannot be; it is kept", "object", ref)
		return kit.Done, nil
	case unserved(err):
		// The kind may be installed later, or the reference may be wrong for good: there is no way to tell.
		log.V(4).Info("The server does not have the kind", "object", ref, "reason", err)
		return kit.After(r.graph.Pause(ref.UID).After), nil
	}
	var gone absentError
	if errors.As(err, &gone) {
		r.apply(r.graph.Absent(gone.ref))
		return kit.Done, nil
	}
	return kit.Done, err
}
