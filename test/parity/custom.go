package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// customGroup has the two custom kinds that both clusters have: Thing, in namespaces, and Realm, without.
const customGroup = "parity.example.com"

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// define creates the custom kinds and waits until they are served.
func (w *world) define(ctx context.Context) error {
	for kind, scope := range map[string]string{"Thing": "Namespaced", "Realm": "Cluster"} {
		crd := definition(customGroup, kind, scope)
		if _, err := w.any.Resource(definitions).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for _, resource := range []string{"things", "realms"} {
		if err := eventually(ctx, time.Minute, func() (bool, error) {
			_, err := w.any.Resource(kinds[resource]).List(ctx, metav1.ListOptions{})
			return err == nil, nil
		}); err != nil {
			return fmt.Errorf("%s are not served: %w", resource, err)
		}
	}
	return nil
}

func definition(group, kind, scope string) *unstructured.Unstructured {
	plural := lowerPlural(kind)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": scope,
			"names": map[string]any{"kind": kind, "plural": plural},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}

// collected waits until both garbage collectors have learned of the custom kinds, upstream's by asking every 30 seconds.
func collected() step {
	return step{
		text: "wait until custom kinds are collected",
		do: func(ctx context.Context, s *subject) error {
			s.custom.Do(func() { s.customErr = s.collects(ctx) })
			return s.customErr
		},
		patience: 2 * time.Minute,
	}
}

func (w *world) collects(ctx context.Context) error {
	for _, resource := range []string{"things", "realms"} {
		where := w.any.Resource(kinds[resource]).Namespace("")
		owner := metav1.OwnerReference{APIVersion: customGroup + "/v1", Kind: "Realm", Name: "never", UID: "00000000-0000-4000-8000-000000000001"}
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(customGroup + "/v1")
		u.SetKind(map[string]string{"things": "Thing", "realms": "Realm"}[resource])
		u.SetName("probe")
		u.SetOwnerReferences([]metav1.OwnerReference{owner})
		if resource == "things" {
			where = w.any.Resource(kinds[resource]).Namespace(metav1.NamespaceDefault)
		}
		if _, err := where.Create(ctx, u, metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := eventually(ctx, 2*time.Minute, func() (bool, error) {
			_, err := where.Get(ctx, "probe", metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		}); err != nil {
			return fmt.Errorf("%s are not collected: %w", resource, err)
		}
	}
	return nil
}
