package cache

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/client"
)

// Index is a named way to find objects of one type: the values under which each is filed.
// Two indexes of one type need different names; the same index may be asked for many times.
type Index[P client.Object] struct {
	Name string
	Keys func(P) []string
}

// Store reads the cached objects of one type. What it returns is shared and read-only.
type Store[P client.Object] struct {
	informer *Informer
}

// Of returns the store of a structured type, with the indexes that the caller will use.
func Of[T any, P client.Ptr[T]](c *Cache, indexes ...Index[P]) (Store[P], error) {
	var zero P = new(T)
	gvk, err := c.o.Client.GVKFor(zero)
	if err != nil {
		return Store[P]{}, err
	}
	i, err := c.Informer(gvk, Structured)
	if err != nil {
		return Store[P]{}, err
	}
	return StoreOf(i, indexes...)
}

// OfKind returns the store of a kind in the form of the type, which is unstructured.Unstructured or
// metav1.PartialObjectMetadata and does not name a kind. A kind that is cached structured as well has an informer for
// each form.
func OfKind[T any, P client.Ptr[T]](c *Cache, gvk schema.GroupVersionKind, indexes ...Index[P]) (Store[P], error) {
	i, err := c.informer(informerID{gvk, formOf(P(new(T)))})
	if err != nil {
		return Store[P]{}, err
	}
	return StoreOf(i, indexes...)
}

// StoreOf returns the typed view of an informer, with the indexes that the caller will use.
func StoreOf[P client.Object](i *Informer, indexes ...Index[P]) (Store[P], error) {
	for _, ix := range indexes {
		keys := ix.Keys
		err := i.addIndex(ix.Name, func(o any) ([]string, error) {
			p, ok := o.(P)
			if !ok {
				return nil, fmt.Errorf("index %s: got a %T", ix.Name, o)
			}
			return keys(p), nil
		})
		if err != nil {
			return Store[P]{}, fmt.Errorf("add index %s of %s: %w", ix.Name, i, err)
		}
	}
	return Store[P]{informer: i}, nil
}

// Get returns the object of that key; ok is false if there is none.
func (s Store[P]) Get(key client.Key) (obj P, ok bool) {
	raw, found := s.informer.Get(key)
	if !found {
		return obj, false
	}
	obj, ok = raw.(P)
	return obj, ok
}

// List returns the objects of a namespace, or all of them if it is empty, in no order.
func (s Store[P]) List(namespace string) []P {
	if namespace == "" {
		return typed[P](s.informer.all())
	}
	return s.by("namespace", namespace)
}

// By returns the objects filed under a value of an index, in no order. The index must have been given when the store
// was made: asking for any other is a bug in the program, and panics.
func (s Store[P]) By(ix Index[P], value string) []P { return s.by(ix.Name, value) }

func (s Store[P]) by(index, value string) []P {
	raw, err := s.informer.by(index, value)
	if err != nil {
		panic(fmt.Sprintf("cache of %s: %v", s.informer, err))
	}
	return typed[P](raw)
}

// Count returns how many objects are filed under a value of an index, without listing them.
func (s Store[P]) Count(ix Index[P], value string) int {
	n, err := s.informer.count(ix.Name, value)
	if err != nil {
		panic(fmt.Sprintf("cache of %s: %v", s.informer, err))
	}
	return n
}

// Values returns the values of an index under which objects are filed, in no order.
func (s Store[P]) Values(ix Index[P]) []string {
	return s.informer.values(ix.Name)
}

// Len returns the number of cached objects.
func (s Store[P]) Len() int { return s.informer.Len() }

// Informer returns the informer behind the store.
func (s Store[P]) Informer() *Informer { return s.informer }

// GVK returns the kind of the store's objects.
func (s Store[P]) GVK() schema.GroupVersionKind { return s.informer.GVK }

func typed[P client.Object](raw []any) []P {
	out := make([]P, 0, len(raw))
	for _, o := range raw {
		if p, ok := o.(P); ok {
			out = append(out, p)
		}
	}
	return out
}
