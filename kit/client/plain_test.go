package client_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"orrery/kit/client"
)

// plain serves one gadget as an extension API may that is made by hand: it knows nothing but JSON, and answers with whole
// objects whatever it is asked for.
func plain(t *testing.T) http.Handler {
	const gadget = `{"apiVersion":"plain.io/v1","kind":"Gadget","metadata":{"name":"g","namespace":"ns","uid":"u","resourceVersion":"7"},"spec":{"size":3}}`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, _ := io.ReadAll(r.Body)
		switch r.Method {
		case http.MethodDelete:
			var o metav1.DeleteOptions
			if err := json.Unmarshal(body, &o); err != nil || r.Header.Get("Content-Type") != "application/json" || o.Kind != "DeleteOptions" || o.APIVersion != "v1" {
				t.Errorf("%s %s: options %q as %s: %v", r.Method, r.URL.Path, body, r.Header.Get("Content-Type"), err)
			}
			if *o.PropagationPolicy != metav1.DeletePropagationBackground {
				t.Errorf("%s %s: options %s", r.Method, r.URL.Path, body)
			}
			fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","status":"Success"}`)
		case http.MethodPatch:
			fmt.Fprint(w, strings.Replace(gadget, `"7"`, `"8"`, 1))
		default:
			if strings.HasSuffix(r.URL.Path, "/gadgets") {
				fmt.Fprintf(w, `{"apiVersion":"plain.io/v1","kind":"GadgetList","metadata":{"resourceVersion":"9"},"items":[%s,%s]}`, gadget, gadget)
				return
			}
			fmt.Fprint(w, gadget)
		}
	})
}

func TestAServerThatAnswersWithWholeObjects(t *testing.T) {
	server := httptest.NewServer(plain(t))
	defer server.Close()
	gadgets := schema.GroupVersionKind{Group: "plain.io", Version: "v1", Kind: "Gadget"}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(gadgets, meta.RESTScopeNamespace)
	c := must(client.New(&rest.Config{Host: server.URL, QPS: -1}, client.Options{Scheme: scheme.Scheme, Mapper: mapper}))
	ctx, kind := t.Context(), client.Kind(gadgets)

	got, err := client.Get[metav1.PartialObjectMetadata](ctx, c, client.Key{Namespace: "ns", Name: "g"}, kind)
	if err != nil || got.UID != "u" || got.GroupVersionKind() != gadgets {
		t.Fatalf("get: %+v, %v", got, err)
	}
	listed, err := client.List[metav1.PartialObjectMetadata](ctx, c, kind, client.InNamespace("ns"))
	if err != nil || len(listed) != 2 || listed[1].UID != "u" {
		t.Errorf("list: %+v, %v", listed, err)
	}
	lw, _, err := c.ListWatch(gadgets, &metav1.PartialObjectMetadata{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := toolscache.ToListerWatcherWithContext(lw).ListWithContext(ctx, metav1.ListOptions{})
	if m, ok := list.(*metav1.PartialObjectMetadataList); err != nil || !ok || len(m.Items) != 2 || m.ResourceVersion != "9" {
		t.Errorf("list of an informer: %+v, %v", list, err)
	}
	patched, err := client.PatchObject(ctx, c, got, client.MergePatch([]byte(`{}`)))
	if err != nil || patched.ResourceVersion != "8" {
		t.Errorf("patch: %+v, %v", patched, err)
	}
	if err := client.Delete(ctx, c, got, client.Background, client.IfUID("u")); err != nil {
		t.Error(err)
	}
	if err := client.DeleteAll[metav1.PartialObjectMetadata](ctx, c, kind, client.InNamespace("ns"), client.Background); err != nil {
		t.Error(err)
	}
}

// TestAnAnswerThatIsNoObject is not taken for one.
func TestAnAnswerThatIsNoObject(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":"odd.io/v1","kind":"Odd","message":"in maintenance"}`)
	}))
	defer server.Close()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(configMaps, meta.RESTScopeNamespace)
	c := must(client.New(&rest.Config{Host: server.URL, QPS: -1}, client.Options{Scheme: scheme.Scheme, Mapper: mapper}))
	if got, err := client.Get[metav1.PartialObjectMetadata](t.Context(), c, client.Key{Namespace: "ns", Name: "g"}, client.Kind(configMaps)); err == nil {
		t.Errorf("got %+v", got)
	}
	if got, err := client.List[metav1.PartialObjectMetadata](t.Context(), c, client.Kind(configMaps)); err == nil {
		t.Errorf("listed %d objects", len(got))
	}
}
