package main

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
)

// leftovers returns the objects of every kind in namespaces that do not exist.
func leftovers(ctx context.Context, c kubernetes.Interface, any metadata.Interface) (found []string, err error) {
	kinds, err := c.Discovery().ServerPreferredNamespacedResources()
	if err != nil {
		return nil, fmt.Errorf("discover kinds: %w", err)
	}
	kinds = discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, kinds)
	objs := map[string]string{} // namespaces by object
	for _, list := range kinds {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("discover kinds: %w", err)
		}
		for _, kind := range list.APIResources {
			all, err := any.Resource(gv.WithResource(kind.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", kind.Name, err)
			}
			for _, o := range all.Items {
				objs[kind.Name+" "+o.Namespace+"/"+o.Name] = o.Namespace
			}
		}
	}
	namespaces, err := c.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}) // after the objects, as some may just be made
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	there := sets.New[string]()
	for _, ns := range namespaces.Items {
		there.Insert(ns.Name)
	}
	for o, ns := range objs {
		if !there.Has(ns) {
			found = append(found, o)
		}
	}
	slices.Sort(found)
	return found, nil
}
