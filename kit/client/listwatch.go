package client

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// ListWatch returns the list and watch calls of a kind in the form of example (structured, unstructured or
// metadata-only), and the resource that serves it. InNamespace, Labels and Fields restrict what is listed and watched,
// Undecoded what is decoded of it.
func (c *Client) ListWatch(gvk schema.GroupVersionKind, example runtime.Object, opts ...Option) (toolscache.ListerWatcher, schema.GroupVersionResource, error) {
	call := newCall(opts)
	one, ok := example.(Object)
	if !ok {
		one = &metav1.PartialObjectMetadata{}
	}
	r, err := c.kinds.resourceAt(gvk, formOf(one), call.place)
	if err != nil {
		return nil, schema.GroupVersionResource{}, err
	}
	if call.undecoded != nil {
		lean := *r
		if lean.rest, err = c.kinds.leanClient(r, *call.undecoded); err != nil {
			return nil, schema.GroupVersionResource{}, err
		}
		r = &lean
	}
	lw := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := c.newList(one, gvk)
			if err != nil {
				return nil, err
			}
			o.LabelSelector, o.FieldSelector = call.labels, call.fields
			return list, r.decode(r.many(r.rest.Get(), call.namespace).VersionedParams(&o, metav1.ParameterCodec).Do(ctx), list)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch, o.LabelSelector, o.FieldSelector = true, call.labels, call.fields
			return r.begin(r.rest.Get(), call.namespace, r.namespaced && call.namespace != "").
				VersionedParams(&o, metav1.ParameterCodec).Watch(ctx)
		},
	}
	return lw, r.gvr, nil
}
