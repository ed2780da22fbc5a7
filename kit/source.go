package kit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/cache"
	"orrery/kit/client"
)

// Filter decides whether a change concerns a controller: old is nil for a create, new is nil for a delete. It only
// saves work: the reconciler has to check again, because the object may have changed since.
type Filter[P any] func(old, new P) bool

// Source is where a controller's keys come from.
type Source[K comparable] struct {
	name   string
	delay  time.Duration
	urgent bool
	own    func(cc ControllerContext) (schema.GroupVersionKind, error) // the kind that the keys name; nil if they name none
	attach func(cc ControllerContext, sink *sink[K]) (synced func() bool, err error)
	run    func(ctx context.Context, sink *sink[K])
}

// Delayed makes the keys wait, so that changes that come close together cost one reconcile. The first change sets the
// time; 0 or less is no delay.
func (s Source[K]) Delayed(d time.Duration) Source[K] {
	s.delay = d
	return s
}

// Urgent makes the keys overtake those of other sources in the queue. After each run of urgent keys comes one of the others.
func (s Source[K]) Urgent() Source[K] {
	s.urgent = true
	return s
}

// Named sets the name shown on the debug page.
func (s Source[K]) Named(name string) Source[K] {
	s.name = name
	return s
}

// WaitFor keeps the controller from its first reconcile until ready, which must be quick, reports true. Keys that arrive
// before wait in the queue.
func (s Source[K]) WaitFor(ready func() bool) Source[K] {
	attach := s.attach
	s.attach = func(cc ControllerContext, sink *sink[K]) (func() bool, error) {
		if attach == nil {
			return ready, nil
		}
		synced, err := attach(cc, sink)
		if err != nil {
			return nil, err
		}
		return func() bool { return synced() && ready() }, nil
	}
	return s
}

// OfKind names the kind to watch, for sources of unstructured.Unstructured and metav1.PartialObjectMetadata, whose Go types
// name none.
func (s Source[K]) OfKind(gvk schema.GroupVersionKind) Source[K] {
	if attach := s.attach; attach != nil {
		s.attach = func(cc ControllerContext, sink *sink[K]) (func() bool, error) {
			cc.kind = gvk
			return attach(cc, sink)
		}
	}
	if own := s.own; own != nil {
		s.own = func(cc ControllerContext) (schema.GroupVersionKind, error) {
			cc.kind = gvk
			return own(cc)
		}
	}
	return s
}

// For yields the keys of the objects of a kind as they change.
func For[T any, P client.Ptr[T]](filters ...Filter[P]) Source[Key] {
	s := watch[T](true, func(_ ControllerContext) (func(old, new P, add func(Key)), error) {
		return func(old, new P, add func(Key)) {
			if new == nil {
				new = old
			}
			add(KeyOf(new))
		}, nil
	}, filters)
	s.own = func(cc ControllerContext) (schema.GroupVersionKind, error) {
		if cc.kind.Kind != "" {
			return cc.kind, nil
		}
		return cc.Client.GVKFor(P(new(T)))
	}
	return s
}

// Owns yields the keys of the controlling owners, of kind Owner, of the objects of kind T as they change. If Owner is the
// kind that the controller watches with For, an owner that is not in the cache is left out: For yields its key when it is
// created, and did when it was deleted.
func Owns[T, Owner any, P client.Ptr[T], O client.Ptr[Owner]](filters ...Filter[P]) Source[Key] {
	return watch[T](false, func(cc ControllerContext) (func(old, new P, add func(Key)), error) {
		owner, err := ownerOf(cc, O(new(Owner)))
		if err != nil {
			return nil, err
		}
		return func(old, new P, add func(Key)) {
			was, wasOwned := ownerKey(old, owner)
			is, owned := ownerKey(new, owner)
			if owned {
				add(is)
			}
			if wasOwned && (!owned || was != is) {
				add(was)
			}
		}, nil
	}, filters)
}

// ownerKind is a kind of owners, and whether they live in the namespace of what they own or in none.
type ownerKind struct {
	schema.GroupKind
	namespaced bool
	cached     *cache.Informer // of the owners, if they are the controller's own kind; nil: it is not known which exist
}

func ownerOf(cc ControllerContext, example client.Object) (ownerKind, error) {
	gvk, err := cc.Client.GVKFor(example)
	if err != nil {
		return ownerKind{}, err
	}
	owner, err := findOwner(cc, gvk)
	if err == nil && gvk == cc.own {
		owner.cached, err = cc.Cache.Informer(gvk, cache.Structured)
	}
	return owner, err
}

func findOwner(cc ControllerContext, gvk schema.GroupVersionKind) (ownerKind, error) {
	m, err := cc.Client.Mapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if i := cc.Cache.Existing(gvk, cache.Structured); err != nil && i != nil && i.Missing() {
		return ownerKind{GroupKind: gvk.GroupKind(), namespaced: true}, nil // as all built-in owners that may be missing are
	}
	if err != nil {
		return ownerKind{}, err
	}
	return ownerKind{GroupKind: gvk.GroupKind(), namespaced: m.Scope.Name() == meta.RESTScopeNameNamespace}, nil
}

// ownerKey returns the key of an object's controlling owner if that is of the wanted kind, in any version, and exists as
// far as is known. References outlive API groups: where the owners are cached, a reference that names another group counts
// if its UID is that of the owner.
func ownerKey[T any, P client.Ptr[T]](obj P, owner ownerKind) (Key, bool) {
	if obj == nil {
		return Key{}, false
	}
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil || ref.Kind != owner.Kind {
		return Key{}, false
	}
	key := Key{Name: ref.Name}
	if owner.namespaced {
		key.Namespace = obj.GetNamespace()
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	sameGroup := err == nil && gv.Group == owner.Group
	if owner.cached == nil {
		return key, sameGroup
	}
	o, exists := owner.cached.Get(key)
	return key, exists && (sameGroup || o.GetUID() == ref.UID)
}

// Watches yields, for each changed object of a kind, the keys that the function finds for it, before and after the
// change. The function runs in the informer's goroutine: it may look up indexes and nothing slower.
func Watches[T any, K comparable, P client.Ptr[T]](keys func(P) []K, filters ...Filter[P]) Source[K] {
	return watch[T](false, func(ControllerContext) (func(old, new P, add func(K)), error) {
		return func(old, new P, add func(K)) {
			var now []K
			if new != nil {
				now = keys(new)
				for _, k := range now {
					add(k)
				}
			}
			if old != nil {
				for _, k := range keys(old) {
					if !slices.Contains(now, k) {
						add(k)
					}
				}
			}
		}, nil
	}, filters)
}

// WatchChanges yields the keys that the function finds for each change of an object: old is nil for a create, new for
// a delete. It is Watches for functions that have to see both sides.
func WatchChanges[T any, K comparable, P client.Ptr[T]](keys func(old, new P) []K, filters ...Filter[P]) Source[K] {
	return watch[T](false, func(ControllerContext) (func(old, new P, add func(K)), error) {
		return func(old, new P, add func(K)) {
			for _, k := range keys(old, new) {
				add(k)
			}
		}, nil
	}, filters)
}

// watch builds a source on the informer of a kind. route finds the keys of a change. Repeats of an unchanged object,
// which a resync sends, reach only the controller whose own object it is.
func watch[T any, K comparable, P client.Ptr[T]](own bool, route func(ControllerContext) (func(old, new P, add func(K)), error), filters []Filter[P]) Source[K] {
	name := fmt.Sprintf("%T", *new(T))
	return Source[K]{name: name, attach: func(cc ControllerContext, sink *sink[K]) (func() bool, error) {
		store, err := storeOf[T, P](cc)
		if err != nil {
			return nil, err
		}
		cc.needs.add(store.Informer(), nil)
		keys, err := route(cc)
		if err != nil {
			return nil, err
		}
		reg, err := Observe(cc, store.Informer(), func(o, n client.Object, _ bool) {
			old, _ := o.(P)
			new, _ := n.(P)
			if !own && old != nil && o == n {
				return
			}
			if passes(cc, filters, old, new) {
				keys(old, new, sink.add)
			}
		})
		if err != nil {
			return nil, err
		}
		return reg.HasSynced, nil
	}}
}

// passes asks every filter. A filter that panics lets the change through: one reconcile too many is harmless.
func passes[P client.Object](cc ControllerContext, filters []Filter[P], old, new P) (ok bool) {
	if len(filters) == 0 {
		return true
	}
	err := Guard(func() error {
		ok = true
		for _, f := range filters {
			if ok = f(old, new); !ok {
				return nil
			}
		}
		return nil
	})
	if err != nil {
		cc.panickedOn(err, "filter", old, new)
		return true
	}
	return ok
}

// Observe calls h for every change that an informer reports, guarded: a panic is logged with the object and counted.
// It serves engines that follow a changing set of kinds; other controllers use sources.
func Observe(cc ControllerContext, i *cache.Informer, h cache.Handler) (*cache.Registration, error) {
	return i.AddHandler(func(old, new client.Object, listed bool) {
		err := Guard(func() error { h(old, new, listed); return nil })
		if err != nil {
			cc.panickedOn(err, "handler", old, new)
		}
	})
}

// Every yields the key once when the controller starts and then each period.
func Every[K comparable](period time.Duration, key K) Source[K] {
	return Source[K]{name: fmt.Sprintf("every %s", period), run: func(ctx context.Context, sink *sink[K]) {
		t := time.NewTicker(period)
		defer t.Stop()
		for {
			sink.add(key)
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
		}
	}}
}

// Chan yields what arrives on the channel until it is closed.
func Chan[K comparable](c <-chan K) Source[K] {
	return Source[K]{name: "channel", run: func(ctx context.Context, sink *sink[K]) {
		for {
			select {
			case <-ctx.Done():
				return
			case k, ok := <-c:
				if !ok {
					return
				}
				sink.add(k)
			}
		}
	}}
}

// Trigger lets code enqueue a key: an engine, or another loop of the same controller. It is safe for concurrent use
// and does nothing until its source belongs to a completed controller.
type Trigger[K comparable] struct{ sink *sink[K] }

// NewTrigger returns a trigger. Give its Source to one controller.
func NewTrigger[K comparable]() *Trigger[K] { return &Trigger[K]{sink: &sink[K]{}} }

// Add enqueues the key now.
func (t *Trigger[K]) Add(key K) { t.sink.add(key) }

// AddAfter enqueues the key in d.
func (t *Trigger[K]) AddAfter(key K, d time.Duration) { t.sink.addAfter(key, d) }

// Source returns the source whose keys are those of the trigger.
func (t *Trigger[K]) Source() Source[K] {
	return Source[K]{name: "trigger", attach: func(_ ControllerContext, s *sink[K]) (func() bool, error) {
		t.sink.connect(s)
		return func() bool { return true }, nil
	}}
}
