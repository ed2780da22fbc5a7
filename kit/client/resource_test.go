package client_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/client"
)

// allOfAKind claims to hold every kind, and nothing of it.
type allOfAKind struct{}

func (allOfAKind) GetCached(schema.GroupVersionKind, client.Object, client.Key) (client.Object, bool, error) {
	return nil, true, apierrors.NewNotFound(schema.GroupResource{}, "cached")
}

func (allOfAKind) ListCached(schema.GroupVersionKind, client.Object, string) ([]client.Object, bool, error) {
	return nil, true, nil
}

func (allOfAKind) Slimmed(schema.GroupVersionKind, client.Object) bool { return false }

// TestAResourceIsAddressedByItsName speaks of config maps and means Secrets.
func TestAResourceIsAddressedByItsName(t *testing.T) {
	eachAPI(t, func(t *testing.T, ctx context.Context, c *client.Client, ns string) {
		secret := func(name string) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"app": "kit"}}}
		}
		for _, name := range []string{"a", "b", "c"} {
			must(client.Create[corev1.Secret](ctx, c, secret(name)))
		}
		must(client.Create[corev1.ConfigMap](ctx, c, settings(ns, "kept")))
		log := &client.WriteLog{}
		logged, cached := client.WithWriteLog(ctx, log), c.WithCache(allOfAKind{})
		there := func(more ...client.Option) []client.Option {
			return append(more, client.Kind(configMaps), client.Resource(corev1.SchemeGroupVersion.WithResource("secrets"), true))
		}
		got := must(client.Get[metav1.PartialObjectMetadata](ctx, cached, client.Key{Namespace: ns, Name: "a"}, there()...))
		if got.GroupVersionKind() != configMaps {
			t.Errorf("got a %s", got.GroupVersionKind())
		}
		must(client.PatchObject(logged, cached, got, client.MergePatch([]byte(`{"metadata":{"annotations":{"by":"name"}}}`)), there()...))
		if stored := must(client.Get[corev1.Secret](ctx, c, client.KeyOf(got))); stored.Annotations["by"] != "name" {
			t.Errorf("annotations = %v", stored.Annotations)
		}
		if err := client.Delete(logged, cached, got, there(client.IfUID(got.UID))...); err != nil {
			t.Error(err)
		}
		mine := []client.Option{client.InNamespace(ns), client.Labels("app=kit")}
		if left := must(client.List[metav1.PartialObjectMetadata](ctx, cached, there(mine...)...)); len(left) != 2 {
			t.Errorf("%d are left, want 2", len(left))
		}
		if err := client.DeleteAll[metav1.PartialObjectMetadata](logged, cached, there(mine...)...); err != nil {
			t.Error(err)
		}
		if left := must(client.List[corev1.Secret](ctx, c, mine...)); len(left) != 0 {
			t.Errorf("%d Secrets are left, want none", len(left))
		}
		if left := must(client.List[corev1.ConfigMap](ctx, c, mine...)); len(left) != 1 {
			t.Errorf("%d config maps are left, want the one", len(left))
		}
		if w := log.Take(); len(w) != 0 {
			t.Errorf("writes to wait for: %v; no cache may have them", w)
		}
	})
}
