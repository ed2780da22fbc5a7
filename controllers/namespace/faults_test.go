package namespace

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/kittest"
)

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, a namespace is deleted with all its objects, and
// objects in other namespaces stay.
func TestFaultsAtEachWrite(t *testing.T) {
	widget := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	kittest.InjectFaults(t, kittest.FaultTest{
		Run: []any{Descriptor()}, World: kittest.Kubelet(nil),
		// Pods are deleted in two ways, and what the server refuses to delete together is deleted one by one.
		Ignore: []string{"delete v1/pods", "delete v1/configmaps", "delete example.com/v1/widgets"},
		Given: func(t *testing.T, api *kittest.API) {
			api.AddKind(widget, "widgets", true)
			for _, ns := range []string{"shop", "other"} {
				api.Create(t, namespace(ns))
				api.Create(t, pod(ns, "running", "n1"))
				api.Create(t, pod(ns, "waiting", ""))
				api.Create(t, configMap(ns, "a"))
				api.Create(t, configMap(ns, "b"))
				w := &unstructured.Unstructured{}
				w.SetGroupVersionKind(widget)
				w.SetNamespace(ns)
				w.SetName("w")
				api.Create(t, w)
			}
		},
		Change: func(t *testing.T, api *kittest.API) { api.Delete(t, namespace("shop")) },
		Always: func(t *testing.T, api *kittest.API) string {
			ns := namespace("shop")
			switch there := api.Get(t, ns); {
			case !there && (api.Get(t, configMap("shop", "a")) || api.Get(t, pod("shop", "running", ""))):
				return "the namespace is gone and its content is not"
			case there && api.Get(t, pod("shop", "running", "")) && !api.Get(t, configMap("shop", "a")):
				return "pods go first"
			}
			return ""
		},
	})
}
