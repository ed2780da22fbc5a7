package namespace

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/client"
	"orrery/kit/kittest"
)

// TestEveryResourceOfAKindIsEmptied: an aggregated API may serve two of one kind, and a CustomResourceDefinition may come
// again with another plural. Neither is what the mapping from kinds to resources leads to.
func TestEveryResourceOfAKindIsEmptied(t *testing.T) {
	image := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Image"}
	for _, tc := range []struct {
		name             string
		firstServed, one bool // one: objects are deleted one by one
	}{
		{"two resources of one kind", true, false},
		{"two resources of one kind, one by one", true, true},
		{"the mapping is out of date", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := kittest.New(t, namespace("shop"), namespace("other"))
				user := api.Client("user")
				list := func(resource, ns string) int {
					gvr := image.GroupVersion().WithResource(resource)
					found, err := client.List[metav1.PartialObjectMetadata](t.Context(), user, client.Kind(image), client.Resource(gvr, true), client.InNamespace(ns))
					if err != nil {
						t.Fatal(err)
					}
					return len(found)
				}
				for _, resource := range []string{"images", "pictures"} {
					gvr := image.GroupVersion().WithResource(resource)
					api.AddKind(image, resource, true)
					api.Serve(gvr, true)
					for i, ns := range []string{"shop", "shop", "other"} {
						o := &unstructured.Unstructured{}
						o.SetGroupVersionKind(image)
						o.SetNamespace(ns)
						o.SetName(fmt.Sprintf("%s-%d", resource, i))
						if _, err := client.Create(t.Context(), user, o, client.Resource(gvr, true)); err != nil {
							t.Fatal(err)
						}
					}
				}
				api.TakeWrites()
				api.Serve(image.GroupVersion().WithResource("images"), tc.firstServed)
				api.React(func(r *kittest.Request) *kittest.Reaction {
					if tc.one && r.Verb == "deletecollection" && r.Resource.Group == image.Group {
						return kittest.Refuse(405, "no")
					}
					return nil
				})
				api.Run(t, Descriptor())
				api.Settle()
				api.Delete(t, namespace("shop"))
				api.Pass(7 * time.Second)
				if api.Get(t, namespace("shop")) {
					t.Errorf("still there; writes: %v", api.Writes())
				}
				if n := list("pictures", "shop"); n != 0 {
					t.Errorf("%d pictures are left behind; writes: %v", n, api.Writes())
				}
				if n := list("pictures", "other"); n != 1 {
					t.Errorf("%d pictures of another namespace are left, want 1", n)
				}
				if !tc.firstServed {
					return
				}
				if n := list("images", "shop"); n != 0 {
					t.Errorf("%d images are left behind", n)
				}
			})
		})
	}
}

// TestKindsOfOneNameAreEmptiedInTurn: they may be the same objects, which two at once would each delete.
func TestKindsOfOneNameAreEmptiedInTurn(t *testing.T) {
	of := func(group, resource string) kind {
		return kind{gvr: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}}
	}
	all := []kind{of("", "events"), of("", "secrets"), of("events.k8s.io", "events"), of("apps", "deployments")}
	var got []string
	for _, group := range byName(all) {
		for _, k := range group {
			got = append(got, k.gvr.GroupResource().String())
		}
		got = append(got, "|")
	}
	if want := "events events.events.k8s.io | secrets | deployments.apps |"; strings.Join(got, " ") != want {
		t.Errorf("in turn: %v, want %s", got, want)
	}
}

// A server that is starting refuses what it does a moment later. Nothing of that is remembered for the next namespace.
func TestARefusalHoldsForOneNamespace(t *testing.T) {
	for _, code := range []int{404, 405} {
		synctest.Test(t, func(t *testing.T) {
			api := kittest.New(t, namespace("first"), namespace("second"))
			for i := range 30 { // more than are deleted each by one request
				api.Create(t, configMap("second", fmt.Sprint("c", i)))
			}
			api.React(func(r *kittest.Request) *kittest.Reaction {
				if (r.Verb == "list" || r.Verb == "deletecollection") && r.Resource.Resource == "configmaps" {
					return kittest.Refuse(code, "no")
				}
				return nil
			})
			api.Run(t, Descriptor())
			api.Settle()
			api.Delete(t, namespace("first"))
			api.Pass(7 * time.Second)
			if api.Get(t, namespace("first")) {
				t.Fatalf("%d: a namespace with nothing in it is kept", code)
			}
			api.Unreact()
			api.Delete(t, namespace("second"))
			api.Pass(7 * time.Second)
			if api.Get(t, namespace("second")) || api.Get(t, configMap("second", "c0")) || api.Get(t, configMap("second", "c29")) {
				t.Errorf("%d: something is left; writes: %v", code, api.Writes())
			}
		})
	}
}
