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
// metadata-only), restricted to a namespace if one is given, and the resource that serves it.
func (c *Client) ListWatch(gvk schema.GroupVersionKind, example runtime.Object, namespace string) (toolscache.ListerWatcher, schema.GroupVersionResource, error) {
	one, ok := example.(Object)
	if !ok {
		one = &metav1.PartialObjectMetadata{}
	}
	r, err := c.kinds.resourceFor(gvk, formOf(one))
	if err != nil {
		return nil, schema.GroupVersionResource{}, err
	}
	lw := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := c.newList(one, gvk)
			if err != nil {
				return nil, err
			}
			return list, r.many(r.rest.Get(), namespace).VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Into(list)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return r.begin(r.rest.Get(), namespace, r.namespaced && namespace != "").
				VersionedParams(&o, metav1.ParameterCodec).Watch(ctx)
		},
	}
	return lw, r.gvr, nil
}
