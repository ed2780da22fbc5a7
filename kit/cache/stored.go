package cache

import (
	"slices"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"

	"orrery/kit/client"
)

// The methods below hide whether an informer has one store, or is made of parts that have one for each namespace.

// part returns the part that holds a namespace, or nil if there is none.
func (i *Informer) part(namespace string) *Informer {
	for _, p := range i.parts {
		if p.namespace == namespace {
			return p
		}
	}
	return nil
}

func (i *Informer) get(key client.Key) (any, bool) {
	if i.parts != nil {
		if i = i.part(key.Namespace); i == nil {
			return nil, false
		}
	}
	obj, ok, err := i.store.GetByKey(storeKey(key))
	return obj, ok && err == nil
}

func (i *Informer) all() []any {
	if i.parts == nil {
		return i.store.List()
	}
	var out []any
	for _, p := range i.parts {
		out = append(out, p.all()...)
	}
	return out
}

func (i *Informer) by(index, value string) ([]any, error) {
	if i.parts == nil {
		return i.store.ByIndex(index, value)
	}
	var out []any
	for _, p := range i.parts {
		found, err := p.by(index, value)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func (i *Informer) count(index, value string) (int, error) {
	n := 0
	for _, p := range i.parts {
		found, err := p.count(index, value)
		if err != nil {
			return 0, err
		}
		n += found
	}
	if i.parts != nil {
		return n, nil
	}
	keys, err := i.store.IndexKeys(index, value)
	return len(keys), err
}

func (i *Informer) values(index string) []string {
	if i.parts == nil {
		return i.store.ListIndexFuncValues(index)
	}
	var out []string
	for _, p := range i.parts {
		out = append(out, p.values(index)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Len returns the number of cached objects.
func (i *Informer) Len() int {
	n := 0
	for _, p := range i.parts {
		n += p.Len()
	}
	if i.parts != nil {
		return n
	}
	return len(i.store.ListKeys())
}

func (i *Informer) addIndex(name string, keys func(any) ([]string, error)) error {
	for _, p := range i.parts {
		if err := p.addIndex(name, keys); err != nil {
			return err
		}
	}
	if i.parts != nil {
		return nil
	}
	if _, ok := i.store.GetIndexers()[name]; ok {
		return nil
	}
	return i.store.AddIndexers(toolscache.Indexers{name: keys})
}

// addToParts adds a handler to each part. The parts run concurrently, but a handler is promised one change at a time.
func (i *Informer) addToParts(h Handler) (*Registration, error) {
	var one sync.Mutex
	r := &Registration{}
	for _, p := range i.parts {
		added, err := p.AddHandler(func(old, new client.Object, listed bool) {
			one.Lock()
			defer one.Unlock()
			h(old, new, listed)
		})
		if err != nil {
			r.Remove()
			return nil, err
		}
		r.parts = append(r.parts, added)
	}
	return r, nil
}
