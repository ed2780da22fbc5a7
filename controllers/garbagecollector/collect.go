package garbagecollector

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"orrery/controllers/garbagecollector/graph"
)

// collectTries bounds the attempts of one reconcile on an object that changes at the same time.
const collectTries = 3

// collect deletes an object that has lost its last owner, or removes references to lost owners. It decides on the cached
// object first. Each write has a UID and version as preconditions, so that the server refuses it if the cache is out of
// date; then collect decides again on a live read.
func (r *reconciler) collect(ctx context.Context, n graph.View) error {
	obj, ok := r.api.Cached(n.Ref)
	if !ok || obj.GetUID() != n.Ref.UID {
		live, err := r.read(ctx, n.Ref)
		if err != nil {
			return err
		}
		obj = live
	}
	version := obj.GetResourceVersion()
	for try := 1; ; try++ {
		if obj.GetDeletionTimestamp() != nil {
			return nil
		}
		o, err := r.classify(ctx, n.Ref, obj.GetOwnerReferences())
		if err != nil {
			return err
		}
		err = r.act(ctx, n.Ref, obj, version, decide(obj, o, n.Dependents))
		if !overtaken(err) || try == collectTries {
			return err
		}
		live, err := r.read(ctx, n.Ref)
		if err != nil {
			return err
		}
		version = live.ResourceVersion
		if try > 1 && apiequality.Semantic.DeepEqual(live.OwnerReferences, obj.GetOwnerReferences()) {
			version = "" // it changes all the time, but not in its owners: the UID is precondition enough
		}
		obj = live
	}
}

// act carries out a plan that was made for the object at that version.
func (r *reconciler) act(ctx context.Context, ref graph.Ref, obj metav1.Object, version string, p plan) error {
	log := klog.FromContext(ctx)
	switch p.action {
	case keep:
		return nil
	case strip:
		log.V(2).Info("Removing references to owners that are gone or wait for the object", "object", ref, "owners", p.strip)
		return r.patchOwners(ctx, ref, obj, without(p.strip))
	}
	if p.waits && r.graph.Deadlocked(ref.UID) {
		unblocked, err := r.unblock(ctx, ref, obj)
		if err != nil {
			return err
		}
		version = unblocked.ResourceVersion
	}
	log.V(2).Info("Deleting object without owners", "object", ref, "propagationPolicy", p.policy)
	return r.explain("delete", ref, r.api.Delete(ctx, ref, version, p.policy))
}

// overtaken reports whether a write was refused because the object has changed since the decision, or is another one of
// the same name: a patch with another UID is invalid rather than a conflict.
func overtaken(err error) bool { return apierrors.IsConflict(err) || apierrors.IsInvalid(err) }
