package garbagecollector

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/controllers/garbagecollector/graph"
	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

// follower returns the function that makes the graph follow a kind.
func (r *reconciler) follower(cc kit.ControllerContext) func(schema.GroupVersionKind) (*monitor, error) {
	return func(gvk schema.GroupVersionKind) (*monitor, error) {
		informer, err := cc.Cache.Informer(gvk, cache.MetadataOnly)
		if err != nil {
			return nil, err
		}
		reg, err := kit.Observe(cc, informer, r.observer(graph.KindOf(gvk)))
		if err != nil {
			return nil, err
		}
		return &monitor{
			synced: reg.HasSynced, listed: informer.HasSynced, why: informer.LastError,
			stop: func() {
				reg.Remove()
				cc.Cache.Remove(gvk, cache.MetadataOnly)
				cc.Live.Forget(gvk)
			},
			forget: func() { r.apply(r.graph.Forget(graph.KindOf(gvk), resyncPeriod)) },
		}, nil
	}
}

// observer returns the handler that feeds the changes of a kind into the graph.
func (r *reconciler) observer(kind graph.Kind) cache.Handler {
	return func(old, new client.Object, listed bool) {
		switch {
		case new == nil && listed:
			r.apply(r.graph.Doubt(old))
		case new == nil:
			r.apply(r.graph.Remove(kind, old))
		case old == nil:
			r.apply(r.graph.Observe(kind, new))
		case r.graph.Concerns(old, new):
			if old.GetUID() != new.GetUID() {
				r.apply(r.graph.Doubt(old)) // its deletion was not shown
			}
			r.apply(r.graph.Observe(kind, new))
		}
	}
}

// apply carries out the effects of a change of the graph.
func (r *reconciler) apply(e graph.Effects) {
	for _, ref := range e.Gone {
		r.known.noteGone(ref)
	}
	for _, ref := range e.Check {
		r.check(ref, 0)
	}
	for _, p := range e.Later {
		r.check(p.Ref, p.After)
	}
	for _, ref := range e.Orphan {
		r.orphan(ref)
	}
	for _, m := range e.Misplaced {
		d := m.Dependent
		r.recorder.Eventf(&corev1.ObjectReference{
			Kind: d.Kind.GVK().Kind, APIVersion: d.APIVersion(), Namespace: d.Namespace, Name: d.Name, UID: d.UID,
		}, corev1.EventTypeWarning, "OwnerRefInvalidNamespace", "ownerRef %s does not exist in namespace %q", m.Owner, d.Namespace)
	}
}
