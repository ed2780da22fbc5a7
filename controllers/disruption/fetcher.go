package disruption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit"
	"orrery/kit/client"
)

// fetchTimeout limits the read of a scale, which can be slow: conversion webhooks take part in it.
const fetchTimeout = 5 * time.Second

// fetcher reads the scales of custom owners from the server.
type fetcher struct {
	scales *scales
	again  func(budget kit.Key)

	mapper meta.RESTMapper
	scale  func(ctx context.Context, kind schema.GroupVersionKind, key kit.Key) (*autoscalingv1.Scale, error)
	serves func(groupVersion string) (*metav1.APIResourceList, error)
}

func newFetcher(cc kit.ControllerContext, s *scales, again func(kit.Key)) *fetcher {
	return &fetcher{
		scales: s, again: again, mapper: cc.Client.Mapper(), serves: cc.Discovery.ServerResourcesForGroupVersion,
		scale: func(ctx context.Context, kind schema.GroupVersionKind, key kit.Key) (*autoscalingv1.Scale, error) {
			return client.Get[autoscalingv1.Scale](ctx, cc.Live, key, client.Kind(kind), client.Subresource("scale"))
		},
	}
}

// Reconcile reads the scale of one owner and requeues the budgets that wait for it. A failed read is a result too, and no
// error of this loop: the budgets request the scale again when it is time.
func (f *fetcher) Reconcile(ctx context.Context, o owner) (kit.Result, error) {
	a, fetch := f.scales.begin(o, time.Now())
	if fetch {
		if a = f.fetch(ctx, o); ctx.Err() != nil {
			return kit.Done, ctx.Err() // the process is stopping
		}
	}
	for _, budget := range f.scales.end(o, a, fetch, time.Now()) {
		f.again(budget)
	}
	return kit.Done, nil
}

// fetch reads the scale of an owner.
func (f *fetcher) fetch(ctx context.Context, o owner) answer {
	mapping, err := f.mapping(o.kind)
	if err != nil {
		return answer{err: err, ofKind: true}
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	scale, err := f.scale(ctx, mapping.GroupVersionKind, kit.Key{Namespace: o.namespace, Name: o.name})
	switch {
	case apierrors.IsNotFound(err):
		return f.missing(mapping.Resource)
	case err != nil:
		return answer{err: err, ofKind: slow(err)}
	case scale.UID != o.uid:
		return answer{err: errNoOwner}
	}
	return answer{replicas: scale.Spec.Replicas}
}

// mapping finds the resource of a kind in the version of the owner reference, or failing that in the version that the
// server prefers. If the kind is unknown, discovery is refreshed first, as it may have been added since.
func (f *fetcher) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	m, err := f.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if !meta.IsNoMatchError(err) {
		return m, err
	}
	meta.MaybeResetRESTMapper(f.mapper)
	if m, now := f.mapper.RESTMapping(kind.GroupKind(), kind.Version); now == nil {
		return m, nil
	}
	if m, now := f.mapper.RESTMapping(kind.GroupKind()); now == nil {
		return m, nil
	}
	return nil, err
}

// missing interprets a 404: either the owner does not exist, or its kind has no scale subresource.
func (f *fetcher) missing(resource schema.GroupVersionResource) answer {
	list, err := f.serves(resource.GroupVersion().String())
	if err != nil {
		return answer{err: err, ofKind: true}
	}
	scale := autoscalingv1.SchemeGroupVersion.WithKind("Scale")
	if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool {
		return r.Name == resource.Resource+"/scale" && r.Kind == scale.Kind && r.Group == scale.Group && r.Version == scale.Version
	}) {
		return answer{err: errNoOwner}
	}
	return answer{err: fmt.Errorf("%s does not implement the scale subresource", resource.GroupResource()), ofKind: true}
}

// slow reports whether a failure probably kept a worker waiting, as failures of an aggregated API server or a conversion
// webhook do.
func slow(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err)
}
