package cache

import (
	"slices"

	toolscache "k8s.io/client-go/tools/cache"

	"orrery/kit/client"
)

// The methods below read the stores of all parts as if they were one.

// Get returns the object of that key.
func (i *Informer) Get(key client.Key) (client.Object, bool) {
	p := i.part(key.Namespace)
	if p == nil {
		return nil, false
	}
	return p.get(key)
}

// List returns the objects of a namespace, or all of them if it is empty.
func (i *Informer) List(namespace string) []client.Object {
	var raw []any
	if namespace == "" {
		raw = i.all()
	} else {
		raw, _ = i.by(toolscache.NamespaceIndex, namespace)
	}
	out := make([]client.Object, len(raw))
	for n, o := range raw {
		out[n] = o.(client.Object)
	}
	return out
}

// Len returns the number of cached objects.
func (i *Informer) Len() (n int) {
	for _, p := range i.parts {
		n += p.len()
	}
	return n
}

func (i *Informer) all() (out []any) {
	for _, p := range i.parts {
		out = join(out, p.store.List())
	}
	return out
}

func (i *Informer) by(index, value string) (out []any, err error) {
	for _, p := range i.parts {
		found, err := p.store.ByIndex(index, value)
		if err != nil {
			return nil, err
		}
		out = join(out, found)
	}
	return out, nil
}

func (i *Informer) count(index, value string) (n int, err error) {
	for _, p := range i.parts {
		keys, err := p.store.IndexKeys(index, value)
		if err != nil {
			return 0, err
		}
		n += len(keys)
	}
	return n, nil
}

func (i *Informer) values(index string) (out []string) {
	for _, p := range i.parts {
		out = join(out, p.store.ListIndexFuncValues(index))
	}
	if len(i.parts) > 1 {
		slices.Sort(out)
		out = slices.Compact(out)
	}
	return out
}

func (i *Informer) addIndex(name string, keys func(any) ([]string, error)) error {
	for _, p := range i.parts {
		if _, ok := p.store.GetIndexers()[name]; ok {
			continue
		}
		if err := p.store.AddIndexers(toolscache.Indexers{name: keys}); err != nil {
			return err
		}
	}
	return nil
}

// join returns a followed by b, of which it may use the memory: most informers have one part, whose answer is not copied.
func join[T any](a, b []T) []T {
	if len(a) == 0 {
		return b
	}
	return append(a, b...)
}
