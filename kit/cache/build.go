package cache

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"orrery/kit/client"
)

// newInformer makes the informer of a kind.
func (c *Cache) newInformer(gvk schema.GroupVersionKind, form Form) (*Informer, error) {
	namespaces, err := c.namespacesOf(gvk, form)
	if err != nil {
		return nil, err
	}
	i := &Informer{GVK: gvk, Form: form}
	of := c.o.Kinds[gvk]
	if of.Labels != "" {
		if i.labels, err = labels.Parse(of.Labels); err != nil {
			return nil, fmt.Errorf("label selector %q: %w", of.Labels, err)
		}
	}
	if _, err := fields.ParseSelector(of.Fields); err != nil {
		return nil, fmt.Errorf("field selector %q: %w", of.Fields, err)
	}
	for _, namespace := range namespaces {
		p, resource, err := c.newPart(gvk, form, namespace)
		if err != nil {
			return nil, err
		}
		i.resource, i.parts = resource, append(i.parts, p)
	}
	return i, nil
}

// namespacesOf returns the namespaces of a kind that are cached, of which "" stands for all.
func (c *Cache) namespacesOf(gvk schema.GroupVersionKind, form Form) ([]string, error) {
	namespaced, err := c.o.Client.Namespaced(gvk)
	switch {
	case c.awaits(form, err):
		return []string{""}, nil // it is not known whether the kind has any
	case err != nil:
		return nil, err
	}
	namespaces := c.o.Namespaces
	if of := c.o.Kinds[gvk].Namespaces; len(of) > 0 {
		namespaces = of
	}
	if !namespaced || len(namespaces) == 0 {
		return []string{""}, nil
	}
	return slices.Compact(slices.Sorted(slices.Values(namespaces))), nil
}

// newPart makes a part of an informer, and returns the resource that serves it.
func (c *Cache) newPart(gvk schema.GroupVersionKind, form Form, namespace string) (*part, schema.GroupVersionResource, error) {
	var none schema.GroupVersionResource
	example, err := exampleOf(c.o.Client.Scheme(), gvk, form)
	if err != nil {
		return nil, none, err
	}
	of := c.o.Kinds[gvk]
	p := &part{kind: gvk, namespace: namespace}
	find := func() (toolscache.ListerWatcher, schema.GroupVersionResource, error) {
		return c.o.Client.ListWatch(gvk, example, client.InNamespace(namespace), client.Labels(of.Labels), client.Fields(of.Fields),
			client.Undecoded(c.undecoded(gvk, form)))
	}
	lw, resource, err := find()
	switch {
	case c.awaits(form, err):
		lw, resource = c.await(p, find)
	case err != nil:
		return nil, none, err
	}
	store, controller := toolscache.NewInformerWithOptions(toolscache.InformerOptions{
		Logger:        &c.o.Log,
		ListerWatcher: p.noting(lw),
		ObjectType:    example,
		Handler:       deliver(p.tell),
		ResyncPeriod:  time.Duration(float64(c.o.Resync) * (0.9 + 0.2*rand.Float64())),
		Indexers:      toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc},
		Transform:     c.transform(gvk, form),
		Identifier:    c.measure(resource),
	})
	p.store, p.controller = store.(toolscache.Indexer), controller // with Indexers, the store is an Indexer
	p.full = controller.HasSyncedChecker().Done()
	p.barrier.part = p
	return p, resource, nil
}

// measure returns the name under which an informer publishes metrics: of each resource, only the first one does.
func (c *Cache) measure(resource schema.GroupVersionResource) (none toolscache.InformerNameAndResource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.o.Name == nil || c.measured[resource] {
		return none
	}
	c.measured[resource] = true
	return c.o.Name.WithResource(resource)
}

// run starts an informer. c.mu is held.
func (c *Cache) run(i *Informer) {
	ctx, cancel := context.WithCancel(klog.NewContext(c.ctx, c.o.Log.WithValues("kind", i.String())))
	i.stop = cancel
	if c.opened {
		i.open()
	}
	first := c.first
	for _, p := range i.parts {
		c.running.Go(func() {
			if first != nil {
				<-first.Done()
			}
			p.controller.RunWithContext(ctx)
			p.stopped.Store(true)
		})
	}
}

// open begins to tell the handlers of changes.
func (i *Informer) open() {
	for _, p := range i.parts {
		p.fanout.open(p.store.List)
	}
}

func compareIDs(a, b informerID) int {
	return cmp.Or(cmp.Compare(a.gvk.Group, b.gvk.Group), cmp.Compare(a.gvk.Kind, b.gvk.Kind), int(a.form)-int(b.form))
}

func exampleOf(s *runtime.Scheme, gvk schema.GroupVersionKind, form Form) (runtime.Object, error) {
	switch form {
	case MetadataOnly:
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(gvk)
		return m, nil
	case Unstructured:
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(gvk)
		return u, nil
	}
	return s.New(gvk)
}

// formOf returns the form of an object.
func formOf(obj client.Object) Form {
	switch obj.(type) {
	case *unstructured.Unstructured:
		return Unstructured
	case *metav1.PartialObjectMetadata:
		return MetadataOnly
	}
	return Structured
}
