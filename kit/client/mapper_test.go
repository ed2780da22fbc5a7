package client_test

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/client"
	"orrery/kit/kittest"
)

func TestTheMapperSeesKindsThatComeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		m := must(client.NewMapper(api.Config("mapper"), nil))
		gadget := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}
		resource := gadget.GroupVersion().WithResource("gadgets")
		pods := schema.GroupKind{Kind: "Pod"}
		if got, err := m.RESTMapping(pods, "v1"); err != nil || got.Resource.Resource != "pods" {
			t.Fatalf("%v, %v", got, err)
		}
		for _, versions := range [][]string{{"v1"}, nil} {
			if _, err := m.RESTMapping(gadget.GroupKind(), versions...); !meta.IsNoMatchError(err) {
				t.Errorf("before it is there: %v", err)
			}
		}
		if has, err := client.Served(m.Discovery(), gadget); err != nil || has {
			t.Errorf("served %t, %v", has, err)
		}
		api.AddKind(gadget, "gadgets", true)
		api.Serve(resource, true)
		// Who asks again and again costs the server one request a second.
		if _, err := m.RESTMapping(gadget.GroupKind(), "v1"); !meta.IsNoMatchError(err) {
			t.Errorf("within a second: %v", err)
		}
		time.Sleep(time.Second)
		for _, versions := range [][]string{nil, {"v1"}} {
			if got, err := m.RESTMapping(gadget.GroupKind(), versions...); err != nil || got.Resource != resource {
				t.Errorf("%v, %v", got, err)
			}
		}
		if all, err := m.RESTMappings(gadget.GroupKind()); err != nil || len(all) != 1 {
			t.Errorf("%d mappings, %v", len(all), err)
		}
		if has, err := client.Served(m.Known(), gadget); err != nil || !has {
			t.Errorf("known to be served %t, %v", has, err)
		}
		if _, err := m.RESTMappings(schema.GroupKind{Group: "no", Kind: "Such"}); !meta.IsNoMatchError(err) {
			t.Errorf("a kind that never comes: %v", err)
		}
	})
}
