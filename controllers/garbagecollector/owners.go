package garbagecollector

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"orrery/controllers/garbagecollector/graph"
	"orrery/kit/cache"
)

// knownOwners is the number of owners whose fate is remembered. A forgotten one is read again.
const knownOwners = 10000

// knowledge is what live reads and watches have proven about owners, so that each owner is read once and not once per
// dependent.
type knowledge struct {
	facts *lru.Cache // graph.Ref to fact
}

// fact is what is known of an owner: that it is gone, which holds for ever as UIDs do not come back, or the version at
// which it was seen to wait for its dependents, which holds as long as no watch has shown a later version.
type fact struct {
	gone    bool
	waiting string
}

func newKnowledge() *knowledge { return &knowledge{facts: lru.New(knownOwners)} }

func (k *knowledge) noteGone(ref graph.Ref) { k.facts.Add(ref, fact{gone: true}) }

func (k *knowledge) noteWaiting(ref graph.Ref, version string) {
	k.facts.Add(ref, fact{waiting: version})
}

func (k *knowledge) gone(ref graph.Ref) bool {
	v, ok := k.facts.Get(ref)
	return ok && v.(fact).gone
}

// goneAs returns the name, with or without the namespace of what refers to it, by which an owner is known to be gone.
func (k *knowledge) goneAs(ref graph.Ref) (graph.Ref, bool) {
	if k.gone(ref) {
		return ref, true
	}
	ref.Namespace = ""
	return ref, k.gone(ref)
}

// waiting reports whether the owner was read waiting at this version or a later one.
func (k *knowledge) waiting(ref graph.Ref, version string) bool {
	v, ok := k.facts.Get(ref)
	return ok && v.(fact).waiting != "" && !cache.Newer(version, v.(fact).waiting)
}

// fate is what has become of an owner.
type fate int

const (
	solid    fate = iota // exists
	dangling             // does not exist
	waiting              // is being deleted and waits for its dependents
)

// owners are an object's owners by what has become of them.
type owners struct {
	solid, dangling, waiting []types.UID
}

// classify finds out what has become of an object's owners.
func (r *reconciler) classify(ctx context.Context, item graph.Ref, refs []metav1.OwnerReference) (owners, error) {
	var out owners
	for _, ref := range refs {
		f, err := r.fateOf(ctx, item, ref)
		if err != nil {
			return out, err
		}
		switch f {
		case solid:
			out.solid = append(out.solid, ref.UID)
		case dangling:
			out.dangling = append(out.dangling, ref.UID)
		case waiting:
			out.waiting = append(out.waiting, ref.UID)
		}
	}
	return out, nil
}

// fateOf finds out what has become of one owner. The cache is good enough to say that the owner exists: if it is out of
// date, the object is kept until the watch shows the change. What leads to a deletion is proven by a live read, now or
// earlier if nothing newer has been seen since.
func (r *reconciler) fateOf(ctx context.Context, item graph.Ref, o metav1.OwnerReference) (fate, error) {
	ref := graph.RefTo(o, item.Namespace)
	if _, gone := r.known.goneAs(ref); gone {
		return dangling, nil
	}
	ref, err := r.place(ref)
	if err != nil {
		return 0, err
	}
	if obj, ok := r.api.Cached(ref); ok && obj.GetUID() == ref.UID {
		if obj.GetDeletionTimestamp() == nil {
			return solid, nil
		}
		if r.known.waiting(ref, obj.GetResourceVersion()) {
			return waiting, nil
		}
	}
	live, err := r.read(ctx, ref)
	var gone absentError
	switch {
	case errors.As(err, &gone):
		r.known.noteGone(ref)
		return dangling, nil
	case err != nil:
		return 0, err
	case live.DeletionTimestamp != nil && hasFinalizer(live, metav1.FinalizerDeleteDependents):
		r.known.noteWaiting(ref, live.ResourceVersion)
		return waiting, nil
	}
	return solid, nil
}
