package garbagecollector

import (
	"context"
	"errors"
	"time"

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

// goneFor is how long an owner counts as gone without being read again. UIDs do not come back, except where the cluster's
// data is restored from a backup while this process runs.
const goneFor = 10 * time.Minute

// fact is what is known of an owner: since when it has been known to be gone, or the version at which it was seen to wait
// for its dependents, which holds as long as no watch has shown a later version.
type fact struct {
	gone    time.Time
	waiting string
}

func newKnowledge() *knowledge { return &knowledge{facts: lru.New(knownOwners)} }

func (k *knowledge) noteGone(ref graph.Ref) { k.facts.Add(ref, fact{gone: time.Now()}) }

// noteBack forgets that an owner was gone.
func (k *knowledge) noteBack(ref graph.Ref) { k.facts.Remove(ref) }

func (k *knowledge) noteWaiting(ref graph.Ref, version string) {
	k.facts.Add(ref, fact{waiting: version})
}

// goneSince returns since when an owner has been known to be gone, or the zero time.
func (k *knowledge) goneSince(ref graph.Ref) time.Time {
	if v, ok := k.facts.Get(ref); ok {
		return v.(fact).gone
	}
	return time.Time{}
}

// goneAs returns the name, with or without the namespace of what refers to it, by which an owner is known to be gone, and
// whether that can be relied on without reading it again.
func (k *knowledge) goneAs(ref graph.Ref) (as graph.Ref, gone, recent bool) {
	since := k.goneSince(ref)
	if since.IsZero() {
		ref.Namespace = ""
		since = k.goneSince(ref)
	}
	return ref, !since.IsZero(), time.Since(since) < goneFor
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
	as, gone, recent := r.known.goneAs(ref)
	if recent {
		return dangling, nil
	}
	f, err := r.fateNow(ctx, ref)
	switch {
	case gone && unserved(err):
		return dangling, nil // it went before its kind did
	case gone && err == nil && f != dangling:
		r.known.noteBack(as)
	}
	return f, err
}

// fateNow finds out what has become of an owner by the cache and the server.
func (r *reconciler) fateNow(ctx context.Context, ref graph.Ref) (fate, error) {
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
