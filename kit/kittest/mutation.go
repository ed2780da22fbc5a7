package kittest

import (
	"reflect"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery/kit/cache"
	"orrery/kit/client"
)

// checkCache fails the test if a cached object differs from the stored one of the same version: then a controller has
// modified an object that all controllers of the process share.
func (a *API) checkCache() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, i := range a.cache.Informers() {
		if _, slimmed := a.slim[i.GVK]; slimmed && i.Form == cache.Structured {
			continue
		}
		stored := a.store.table(i.Resource().GroupResource()).objects
		for _, cached := range i.List("") {
			o := stored[client.KeyOf(cached)]
			if o == nil || o.GetResourceVersion() != cached.GetResourceVersion() || o.GetUID() != cached.GetUID() {
				continue
			}
			if diff := differs(o, cached); diff != "" {
				a.t.Errorf("the cached %s %s has been changed in place (-server +cache):\n%s", i.GVK.Kind, client.KeyOf(cached), diff)
			}
		}
	}
}

// differs compares a stored object with the cached one.
func differs(o *unstructured.Unstructured, cached client.Object) string {
	want := reflect.New(reflect.TypeOf(cached).Elem()).Interface().(client.Object)
	want.GetObjectKind().SetGroupVersionKind(cached.GetObjectKind().GroupVersionKind())
	if err := copyInto(o, want); err != nil {
		return err.Error()
	}
	want.SetManagedFields(nil)
	if equality.Semantic.DeepEqual(want, cached) {
		return ""
	}
	return cmp.Diff(want, cached)
}
