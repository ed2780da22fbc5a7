package garbagecollector

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"orrery/controllers/garbagecollector/graph"
	"orrery/kit"
	"orrery/kit/client"
)

const (
	// finalizerTries bounds the attempts of one reconcile to remove a finalizer from an object that changes at the same time.
	finalizerTries = 5
	// releases bounds the dependents of one owner that are released, or deleted with it, concurrently.
	releases = 50
)

// finish removes the foreground finalizer from an object once no dependent blocks its deletion. Until then it has the
// dependents reconciled that are not being deleted yet.
func (r *reconciler) finish(ctx context.Context, n graph.View) error {
	if n.Blockers == 0 {
		if err := r.shed(ctx, n.Ref); err != nil {
			return err
		}
		return r.removeFinalizer(ctx, n.Ref, metav1.FinalizerDeleteDependents)
	}
	for _, d := range r.graph.Pending(n.Ref.UID) {
		r.check(d, 0)
	}
	if !r.graph.Deadlocked(n.Ref.UID) {
		return nil
	}
	obj, err := r.read(ctx, n.Ref)
	if err != nil {
		return err
	}
	_, err = r.unblock(ctx, n.Ref, obj)
	return err
}

// shed deletes what an owner that waits for its dependents has besides those that it waits for. Were it let go first, it
// would keep them for as long as somebody else's finalizer keeps it, which may wait for just them. One that cannot be
// deleted does not hold it.
func (r *reconciler) shed(ctx context.Context, owner graph.Ref) error {
	loose := r.graph.Loose(owner.UID)
	return kit.Batch(ctx, len(loose), releases, func(ctx context.Context, i int) error {
		d, ok := r.graph.View(loose[i].UID)
		if !ok || d.Virtual || d.Deleting {
			return nil
		}
		if err := r.collect(ctx, d); err != nil {
			r.check(d.Ref, 0) // where the failure is sorted out, and told
		}
		return nil
	})
}

// unblock breaks a cycle of objects that wait for each other: it makes this one block none of its owners.
func (r *reconciler) unblock(ctx context.Context, ref graph.Ref, obj metav1.Object) (*metav1.PartialObjectMetadata, error) {
	klog.FromContext(ctx).V(2).Info("Objects wait for each other's deletion; unblocking the owners of one", "object", ref)
	return r.sendOwners(ctx, ref, obj, unblocking())
}

// release removes the references to an owner from its dependents, and then the owner's orphan finalizer.
func (r *reconciler) release(ctx context.Context, owner graph.Ref) error {
	dependents, err := r.dependentsOf(ctx, owner)
	if err != nil {
		return err
	}
	err = kit.Batch(ctx, len(dependents), releases, func(ctx context.Context, i int) error {
		return r.releaseOne(ctx, dependents[i], owner)
	})
	if err != nil {
		return fmt.Errorf("release the dependents of %s: %w", owner, err)
	}
	return r.removeFinalizer(ctx, owner, metav1.FinalizerOrphanDependents)
}

// dependentsOf returns an owner's dependents. For each kind of dependent that the graph knows, it lists the namespace to
// find those that no watch has shown yet: a dependent that is not released would be collected as soon as the owner is gone.
// The dependents of a cluster-scoped owner may be in any namespace; for it, those in the graph have to do.
func (r *reconciler) dependentsOf(ctx context.Context, owner graph.Ref) ([]graph.Ref, error) {
	all := r.graph.Dependents(owner.UID)
	if owner.Namespace == "" {
		return all, nil
	}
	known, kinds := map[types.UID]bool{}, map[graph.Kind]bool{}
	for _, d := range all {
		known[d.UID], kinds[d.Kind] = true, true
	}
	for kind := range kinds {
		objs, err := r.api.In(ctx, kind, owner.Namespace)
		if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) { // the kind is gone, and all of it
			return nil, fmt.Errorf("list the dependents of %s: %w", owner, err)
		}
		for _, o := range objs {
			if !known[o.UID] && slices.ContainsFunc(o.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == owner.UID }) {
				all = append(all, graph.RefOf(kind, o))
			}
		}
	}
	return all, nil
}

func (r *reconciler) releaseOne(ctx context.Context, d, owner graph.Ref) error {
	obj, ok := r.api.Cached(d)
	if !ok || obj.GetUID() != d.UID {
		live, err := r.read(ctx, d)
		if err != nil {
			return notAbsent(err)
		}
		obj = live
	}
	err := r.patchOwners(ctx, d, obj, without([]types.UID{owner.UID}))
	if !overtaken(err) {
		return notAbsent(err)
	}
	live, err := r.read(ctx, d)
	if err != nil {
		return notAbsent(err)
	}
	return notAbsent(r.patchOwners(ctx, d, live, without([]types.UID{owner.UID})))
}

// removeFinalizer removes a finalizer from an object. If it was the last one the server deletes the object.
func (r *reconciler) removeFinalizer(ctx context.Context, ref graph.Ref, name string) error {
	obj, ok := r.api.Cached(ref)
	fresh := ok && obj.GetUID() == ref.UID && hasFinalizer(obj, name)
	for try := 1; ; try++ {
		if !fresh {
			live, err := r.read(ctx, ref)
			if err != nil {
				return notAbsent(err)
			}
			obj = live
		}
		if !hasFinalizer(obj, name) {
			return nil
		}
		rest := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == name })
		_, err := r.api.Patch(ctx, ref, client.MergePatch(finalizersPatch(obj, rest)))
		if !apierrors.IsConflict(err) || try == finalizerTries {
			return notAbsent(r.explain("remove finalizer "+name+" of", ref, err))
		}
		fresh = false
	}
}
