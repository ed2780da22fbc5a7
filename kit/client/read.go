package client

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const pageSize = 500

// Get reads one object, from the cache where that holds the kind in the form of the type (then the object is shared and
// read-only), else from the server. Unstructured and metadata-only reads need the Kind option.
// The error is the server's, or a NotFound of the same form from the cache.
func Get[T any, P Ptr[T]](ctx context.Context, c *Client, key Key, opts ...Option) (P, error) {
	call, into := newCall(opts), P(new(T))
	gvk, err := c.readGVK(into, call)
	if err != nil {
		return nil, err
	}
	if c.cached(gvk, call) {
		if obj, ok, err := c.cache.GetCached(gvk, into, key); err != nil {
			return nil, err
		} else if p, same := obj.(P); ok && same {
			return p, nil
		}
	}
	r, err := c.kinds.resourceAt(gvk, formOf(into), call.place)
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", gvk.Kind, key, err)
	}
	req := r.one(r.rest.Get(), key)
	if call.subresource != "" {
		req = req.SubResource(call.subresource)
	}
	if call.version != "" {
		req = req.Param("resourceVersion", call.version)
	}
	if err := r.decode(req.Do(ctx), into); err != nil {
		return nil, err
	}
	setKind(into, gvk)
	return into, nil
}

// List reads all objects that the options select, from the cache where that holds the kind in the form of the type and no
// field selector is given, else from the server, in pages. Unstructured and metadata-only reads need the Kind option.
func List[T any, P Ptr[T]](ctx context.Context, c *Client, opts ...Option) ([]P, error) {
	call, one := newCall(opts), P(new(T))
	gvk, err := c.readGVK(one, call)
	if err != nil {
		return nil, err
	}
	if c.cached(gvk, call) && call.fields == "" {
		if objs, ok, err := c.cache.ListCached(gvk, one, call.namespace); err != nil {
			return nil, err
		} else if ok {
			return pick[P](objs, call.labels)
		}
	}
	var out []P
	for page, err := range Pages[T, P](ctx, c, opts...) {
		if err != nil {
			return nil, err
		}
		out = append(out, page.Items...)
	}
	return out, nil
}

// Page is a part of a list, as the server divides it.
type Page[P Object] struct {
	Items []P
	Token string // of this page, for From; empty for the first one
}

// Pages reads the objects that the options select, as List does but always from the server, and yields each page as it
// comes. An error is the last thing that it yields.
func Pages[T any, P Ptr[T]](ctx context.Context, c *Client, opts ...Option) iter.Seq2[Page[P], error] {
	return func(yield func(Page[P], error) bool) {
		call, one := newCall(opts), P(new(T))
		gvk, err := c.readGVK(one, call)
		if err != nil {
			yield(Page[P]{}, err)
			return
		}
		r, err := c.kinds.resourceAt(gvk, formOf(one), call.place)
		if err != nil {
			yield(Page[P]{}, fmt.Errorf("list %s: %w", gvk.Kind, err))
			return
		}
		lo := metav1.ListOptions{
			LabelSelector: call.labels, FieldSelector: call.fields, Limit: cmp.Or(call.limit, pageSize),
			ResourceVersion: call.version, Continue: call.token,
		}
		for {
			page, next, err := readPage[P](ctx, c, r, one, call.namespace, lo)
			if !yield(page, err) || err != nil || next == "" {
				return
			}
			lo.Continue, lo.ResourceVersion = next, ""
		}
	}
}

// readPage reads one page and returns the token of the next one, if there is one.
func readPage[P Object](ctx context.Context, c *Client, r *resource, one Object, namespace string, lo metav1.ListOptions) (Page[P], string, error) {
	page := Page[P]{Token: lo.Continue}
	list, err := c.newList(one, r.gvk)
	if err != nil {
		return page, "", err
	}
	err = r.decode(r.many(r.rest.Get(), namespace).VersionedParams(&lo, metav1.ParameterCodec).Do(ctx), list)
	if err != nil {
		return page, "", err
	}
	err = meta.EachListItem(list, func(o runtime.Object) error {
		p, ok := o.(P)
		if !ok {
			return fmt.Errorf("list %s: the server answered a %T", r.gvk.Kind, o)
		}
		setKind(p, r.gvk)
		page.Items = append(page.Items, p)
		return nil
	})
	if err != nil {
		return page, "", err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return page, "", err
	}
	return page, m.GetContinue(), nil
}

func (c *Client) readGVK(obj Object, call call) (schema.GroupVersionKind, error) {
	parent := call.subresource != "" && call.gvk.Kind != ""
	if formOf(obj) == structured && !parent {
		return c.kinds.gvkFor(obj)
	}
	if call.gvk.Kind == "" {
		return call.gvk, fmt.Errorf("reading a %T needs the Kind option", obj)
	}
	return call.gvk, nil
}

func (c *Client) newList(one Object, gvk schema.GroupVersionKind) (runtime.Object, error) {
	switch formOf(one) {
	case metadataOnly:
		return &metav1.PartialObjectMetadataList{}, nil
	case dynamicForm:
		return &unstructured.UnstructuredList{}, nil
	}
	return c.kinds.scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
}

// setKind restores the kind on metadata-only objects, which the server answers as PartialObjectMetadata.
func setKind(obj Object, gvk schema.GroupVersionKind) {
	if formOf(obj) == metadataOnly {
		obj.GetObjectKind().SetGroupVersionKind(gvk)
	}
}

func pick[P Object](objs []Object, selector string) ([]P, error) {
	match := labels.Everything()
	if selector != "" {
		var err error
		if match, err = labels.Parse(selector); err != nil {
			return nil, fmt.Errorf("label selector %q: %w", selector, err)
		}
	}
	out := make([]P, 0, len(objs))
	for _, o := range objs {
		if p, ok := o.(P); ok && match.Matches(labels.Set(o.GetLabels())) {
			out = append(out, p)
		}
	}
	return out, nil
}
