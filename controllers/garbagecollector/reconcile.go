package garbagecollector

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"orrery/controllers/garbagecollector/graph"
	"orrery/kit"
)

type reconciler struct {
	graph    *graph.Graph
	known    *knowledge
	api      api
	check    func(graph.Ref, time.Duration) // calls for a look at an object
	orphan   func(graph.Ref)                // calls for the release of an owner's dependents
	whole    func() bool                    // no dependents are about to come to the graph, see kinds.whole
	recorder record.EventRecorder
}

const (
	// lookSoon is when an owner is looked at again that cannot go, as not all of its dependents may be known.
	lookSoon = 200 * time.Millisecond
	// lookAgain is when an object is looked at again whose deletion has been finished. It has gone by then, or a watch has
	// shown that it goes no further, unless it broke just then and the same deletion has been asked for once more.
	lookAgain = time.Minute
)

// Reconcile looks at one object of the graph: whether it exists, whether it still has an owner, whether what it waits
// for is done.
func (r *reconciler) Reconcile(ctx context.Context, key graph.Ref) (kit.Result, error) {
	n, ok := r.graph.View(key.UID)
	var err error
	switch {
	case !ok:
		return kit.Done, nil
	case n.Virtual && n.Ref != key:
		return kit.Done, nil // it has another name now, under which it is looked at
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
		return kit.Done, nil // it goes by itself; what depends on it is looked at when it has gone
	default:
		err = r.collect(ctx, n)
	}
	return r.settle(ctx, n.Ref, err)
}

// reconcileOrphan releases the dependents of an owner that is deleted without them, and lets the owner go.
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

// verify reads an owner that no watch has shown. It stays under observation until a watch shows it or it is gone: it may
// have come and gone while no watch was open.
func (r *reconciler) verify(ctx context.Context, ref graph.Ref) (kit.Result, error) {
	if as, gone := r.known.goneAs(ref); gone {
		return r.settle(ctx, as, absentError{as}) // the server may not have the kind any more
	}
	ref, err := r.place(ref)
	if err == nil {
		_, err = r.read(ctx, ref)
	}
	if err == nil {
		return kit.After(r.graph.Pause(ref.UID).After), nil
	}
	return r.settle(ctx, ref, err)
}

// settle sorts out errors that are no failures.
func (r *reconciler) settle(ctx context.Context, ref graph.Ref, err error) (kit.Result, error) {
	log := klog.FromContext(ctx)
	switch {
	case err == nil:
		return kit.Done, nil
	case errors.Is(err, errMisplaced):
		log.V(2).Info("A cluster-scoped object refers to a namespaced owner, which cannot be; it is kept", "object", ref)
		return kit.Done, nil
	case errors.Is(err, errUnserved), meta.IsNoMatchError(err):
		// The kind may come, or the reference is wrong for good: nothing tells.
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
