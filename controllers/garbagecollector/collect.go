package garbagecollector

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"orrery/controllers/garbagecollector/graph"
)

// collectTries is how often an object that changes at the same time is looked at in one go.
const collectTries = 3

// collect deletes an object that has lost its last owner, or removes references to lost owners. It decides on the cached
// object: the UID and version that go with each write make the server refuse if that is not what it has. Then it decides
// again on what the server has.
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
			version = "" // it changes all the time, and not in what counts: the UID has to do
		}
		obj = live
	}
}

// act carries out a plan that was made for the object as it is at its version.
func (r *reconciler) act(ctx context.Context, ref graph.Ref, obj metav1.Object, version string, p plan) error {
	log := klog.FromContext(ctx)
	switch p.action {
	case keep:
		return nil
	case strip:
		log.V(2).Info("Removing references to owners that are gone or wait for the object", "object", ref, "owners", p.strip)
		return r.patchOwners(ctx, ref, obj, without(p.strip))
	case remove:
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

// overtaken reports whether a write was refused because the object is not what it was decided on: changed, or, where the
// server compares the UID as it would any field, another one.
func overtaken(err error) bool { return apierrors.IsConflict(err) || apierrors.IsInvalid(err) }
