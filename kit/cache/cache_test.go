package cache_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/cache"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

var (
	podKind    = corev1.SchemeGroupVersion.WithKind("Pod")
	mapKind    = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	widgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
)

// onKittest runs a test with a cache that has been started and stops by itself.
func onKittest(t *testing.T, o cache.Options, test func(t *testing.T, api *kittest.API, c *cache.Cache)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		api.AddKind(widgetKind, "widgets", true)
		o.Client = api.Client("informers")
		c := cache.New(o)
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(func() {
			cancel()
			c.Wait()
		})
		c.Start(ctx)
		test(t, api, c)
	})
}

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: map[string]string{"app": "kit"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "a", Value: "b"}}}}},
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var podsByNode = cache.Index[*corev1.Pod]{Name: "node", Keys: func(p *corev1.Pod) []string {
	if p.Spec.NodeName == "" {
		return nil
	}
	return []string{p.Spec.NodeName}
}}

func names[P client.Object](objs []P) string {
	var out []string
	for _, o := range objs {
		out = append(out, o.GetName())
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestStructuredStoresHaveTypedIndexes(t *testing.T) {
	onKittest(t, cache.Options{}, func(t *testing.T, api *kittest.API, c *cache.Cache) {
		api.Create(t, pod("a", "n1"))
		api.Create(t, pod("b", "n1"))
		api.Create(t, pod("c", "n2"))
		store := must(cache.Of(c, podsByNode))
		again := must(cache.Of(c, podsByNode)) // the same index, asked for by another controller
		synctest.Wait()
		if got := names(again.By(podsByNode, "n1")); got != "a b" || store.Count(podsByNode, "n1") != 2 {
			t.Errorf("pods of n1: %s", got)
		}
		moved := pod("b", "n2")
		api.Update(t, moved)
		api.Remove(t, pod("c", "n2"))
		synctest.Wait()
		if got := names(store.By(podsByNode, "n2")); got != "b" {
			t.Errorf("pods of n2: %s", got)
		}
		if got := names(store.List("default")) + "," + names(store.List("")) + "," + names(store.List("other")); got != "a b,a b," {
			t.Errorf("lists: %s", got)
		}
		p, ok := store.Get(client.Key{Namespace: "default", Name: "b"})
		if !ok || p.ManagedFields != nil || p.Kind != "" {
			t.Errorf("got %v, managed fields %v, kind %q", ok, p.ManagedFields, p.Kind)
		}
		later := cache.Index[*corev1.Pod]{Name: "image", Keys: func(p *corev1.Pod) []string { return []string{p.Spec.Containers[0].Image} }}
		if late := must(cache.Of(c, later)); late.Count(later, "i") != 2 {
			t.Error("an index added to a running informer is empty")
		}
		defer func() {
			if recover() == nil {
				t.Error("asking for an index that was never given did not panic")
			}
		}()
		store.By(cache.Index[*corev1.Pod]{Name: "nothing"}, "x")
	})
}

func TestMetadataIsServedFromTheStructuredForm(t *testing.T) {
	onKittest(t, cache.Options{}, func(t *testing.T, api *kittest.API, c *cache.Cache) {
		structured := must(c.Informer(podKind, cache.Structured))
		if must(c.Informer(podKind, cache.MetadataOnly)) != structured {
			t.Error("pods are watched twice")
		}
		if c.Existing(podKind, cache.Unstructured) != nil {
			t.Error("an unstructured informer exists that nobody asked for")
		}
		meta := must(c.Informer(mapKind, cache.MetadataOnly))
		free := must(c.Informer(widgetKind, cache.Unstructured))
		if got := len(c.Serving(mapKind)); got != 1 {
			t.Errorf("config maps are served by %d informers", got)
		}
		api.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{"a": "b"}}, Data: map[string]string{"k": "v"}})
		w := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(3)}}}
		w.SetGroupVersionKind(widgetKind)
		w.SetName("w")
		api.Create(t, w)
		synctest.Wait()
		got, _ := meta.Get(client.Key{Namespace: "default", Name: "m"})
		m, ok := got.(*metav1.PartialObjectMetadata)
		if !ok || m.GroupVersionKind() != mapKind || m.Labels["a"] != "b" {
			t.Errorf("metadata: %#v", got)
		}
		got, _ = free.Get(client.Key{Namespace: "default", Name: "w"})
		if u, ok := got.(*unstructured.Unstructured); !ok || u.GetKind() != "Widget" {
			t.Errorf("unstructured: %#v", got)
		}
		must(c.Informer(mapKind, cache.Structured))
		if got := len(c.Serving(mapKind)); got != 2 {
			t.Errorf("config maps are served by %d informers, want both forms", got)
		}
		if _, err := c.Informer(schema.GroupVersionKind{Group: "no", Version: "v1", Kind: "Such"}, cache.MetadataOnly); err == nil {
			t.Error("a kind that the server does not have was cached")
		}
		var order []string
		for _, i := range c.Informers() {
			order = append(order, i.String()+" "+i.Form.String())
		}
		if want := "[ConfigMap.v1 structured ConfigMap.v1 metadata-only Pod.v1 structured Widget.example.com/v1 unstructured]"; fmt.Sprint(order) != want {
			t.Errorf("informers %v, want %s", order, want)
		}
	})
}

func TestASlimmedObjectIsNotWrittenBack(t *testing.T) {
	slim := map[schema.GroupVersionKind]cache.Slimming{podKind: {
		Drop:  func(o client.Object) { o.(*corev1.Pod).Spec.Containers = nil },
		Whole: func(o client.Object) bool { return o.GetName() == "whole" },
	}}
	onKittest(t, cache.Options{Slim: slim}, func(t *testing.T, api *kittest.API, c *cache.Cache) {
		store := must(cache.Of[corev1.Pod](c))
		api.Create(t, pod("slim", ""))
		api.Create(t, pod("whole", ""))
		synctest.Wait()
		reader := api.Client("writer").WithCache(c)
		for name, containers := range map[string]int{"slim": 0, "whole": 1} {
			p, _ := store.Get(client.Key{Namespace: "default", Name: name})
			if len(p.Spec.Containers) != containers {
				t.Errorf("%s has %d containers in the cache, want %d", name, len(p.Spec.Containers), containers)
			}
			next := p.DeepCopy()
			next.Labels["app"] = "changed"
			if _, err := client.Update(t.Context(), reader, next); (err == nil) != (name == "whole") {
				t.Errorf("update of %s: %v", name, err)
			}
		}
		p, _ := store.Get(client.Key{Namespace: "default", Name: "slim"})
		if _, err := client.PatchObject(t.Context(), reader, p, client.MergePatch([]byte(`{"metadata":{"labels":{"app":"changed"}}}`))); err != nil {
			t.Errorf("patch: %v", err)
		}
		if _, err := client.UpdateStatus(t.Context(), reader, p); err == nil {
			t.Error("the status of a slimmed object was written back")
		}
		live := must(client.Get[corev1.Pod](t.Context(), reader.Live(), client.KeyOf(p)))
		if len(live.Spec.Containers) != 1 || live.Labels["app"] != "changed" {
			t.Errorf("on the server: %d containers, labels %v", len(live.Spec.Containers), live.Labels)
		}
	})
}

func TestReadsComeFromTheCacheAndWritesGoToTheServer(t *testing.T) {
	onKittest(t, cache.Options{}, func(t *testing.T, api *kittest.API, c *cache.Cache) {
		must(cache.Of[corev1.Pod](c))
		api.Create(t, pod("a", ""))
		synctest.Wait()
		api.FreezeWatch(podKind, true)
		cached := api.Client("reader").WithCache(c)
		ctx, key := t.Context(), client.Key{Namespace: "default", Name: "b"}
		must(client.Create[corev1.Pod](ctx, cached, pod("b", "")))
		if _, err := client.Get[corev1.Pod](ctx, cached, key); !apierrors.IsNotFound(err) {
			t.Errorf("cached read: %v, want not found", err)
		}
		if _, err := client.Get[corev1.Pod](ctx, cached.Live(), key); err != nil {
			t.Errorf("live read: %v", err)
		}
		reads := 0
		api.React(func(*kittest.Request) *kittest.Reaction { reads++; return nil })
		list := func(cl *client.Client, opts ...client.Option) int {
			return len(must(client.List[corev1.Pod](ctx, cl, opts...)))
		}
		if n := list(cached, client.Labels("app=kit")); n != 1 || reads != 0 {
			t.Errorf("cached list: %d pods, %d calls", n, reads)
		}
		if n := list(cached, client.Labels("app=other")); n != 0 {
			t.Errorf("cached list of other labels: %d pods", n)
		}
		if n := list(cached, client.Fields("metadata.name=b")); n != 1 || reads != 1 {
			t.Errorf("list by field: %d pods, %d calls; want it live", n, reads)
		}
		meta := must(client.List[metav1.PartialObjectMetadata](ctx, cached, client.Kind(podKind)))
		if len(meta) != 2 || reads != 2 {
			t.Errorf("list of metadata: %d pods, %d calls; want it live", len(meta), reads)
		}
		if n := len(must(client.List[corev1.ConfigMap](ctx, cached))); n != 0 || reads != 3 {
			t.Errorf("list of a kind that is not cached: %d, %d calls; want it live", n, reads)
		}
	})
}

func TestACacheOfOneNamespaceKnowsItsBounds(t *testing.T) {
	onKittest(t, cache.Options{Namespaces: []string{"default"}}, func(t *testing.T, api *kittest.API, c *cache.Cache) {
		pods, nodes := must(cache.Of[corev1.Pod](c)), must(cache.Of[corev1.Node](c))
		other := pod("o", "")
		other.Namespace = "other"
		api.Create(t, other)
		api.Create(t, pod("a", ""))
		api.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		synctest.Wait()
		if pods.Len() != 1 || nodes.Len() != 1 {
			t.Errorf("%d pods and %d nodes cached, want one of each", pods.Len(), nodes.Len())
		}
		if i := pods.Informer(); !i.Covers("default") || i.Covers("other") || !nodes.Informer().Covers("") {
			t.Error("the informers do not know what they cover")
		}
		cached := api.Client("reader").WithCache(c)
		if _, err := client.Get[corev1.Pod](t.Context(), cached, client.KeyOf(other)); err != nil {
			t.Errorf("read outside of the bounds: %v; want it live", err)
		}
	})
}

func TestRemoveStopsAnInformer(t *testing.T) {
	onKittest(t, cache.Options{}, func(t *testing.T, api *kittest.API, c *cache.Cache) {
		i := must(c.Informer(widgetKind, cache.Unstructured))
		synctest.Wait()
		c.Remove(widgetKind, cache.Unstructured)
		c.Remove(widgetKind, cache.Unstructured)
		api.Pass(time.Second)
		if c.Existing(widgetKind, cache.Unstructured) != nil || !i.Seen(client.Write{ResourceVersion: "999999"}) {
			t.Error("the informer is still there, or keeps writers waiting")
		}
		structured := must(c.Informer(podKind, cache.Structured))
		c.Remove(podKind, cache.Structured)
		if c.Existing(podKind, cache.MetadataOnly) != structured {
			t.Error("a structured informer was removed")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		c := cache.New(cache.Options{Client: api.Client("informers")})
		must(c.Informer(podKind, cache.MetadataOnly))
		c.Remove(podKind, cache.MetadataOnly) // before Start
	})
}

func TestTheLastErrorGoesWhenTheWatchWorksAgain(t *testing.T) {
	onKittest(t, cache.Options{}, func(t *testing.T, api *kittest.API, c *cache.Cache) {
		i := must(c.Informer(podKind, cache.Structured))
		synctest.Wait()
		broken := true
		api.React(func(*kittest.Request) *kittest.Reaction {
			if broken {
				return kittest.Refuse(403, "not for you")
			}
			return nil
		})
		api.Compact(podKind)
		api.Pass(time.Minute)
		if got := i.LastError(); !strings.Contains(got, "not for you") || !i.HasSynced() {
			t.Errorf("last error %q", got)
		}
		broken = false
		api.Create(t, pod("a", ""))
		api.Pass(2 * time.Minute)
		if got := i.LastError(); got != "" || i.Len() != 1 {
			t.Errorf("last error %q, %d pods", got, i.Len())
		}
	})
}

func TestHandlersGetTombstonesUnwrapped(t *testing.T) {
	onKittest(t, cache.Options{}, func(t *testing.T, api *kittest.API, c *cache.Cache) {
		api.Create(t, pod("a", ""))
		i := must(c.Informer(podKind, cache.Structured))
		var mu sync.Mutex
		var seen []string
		reg := must(i.AddHandler(func(old, new client.Object, listed bool) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case old == nil:
				seen = append(seen, fmt.Sprintf("add %s %v", new.GetName(), listed))
			case new == nil:
				seen = append(seen, fmt.Sprintf("delete %s %v", old.GetName(), listed))
			}
		}))
		synctest.Wait()
		if !reg.HasSynced() {
			t.Error("the handler has not seen the first list")
		}
		api.FreezeWatch(podKind, true)
		api.Remove(t, pod("a", ""))
		api.Create(t, pod("b", ""))
		api.Compact(podKind)
		api.FreezeWatch(podKind, false)
		api.Pass(time.Minute)
		api.Remove(t, pod("b", ""))
		synctest.Wait()
		reg.Remove()
		api.Create(t, pod("c", ""))
		synctest.Wait()
		slices.Sort(seen[1:3])
		if got := strings.Join(seen, ", "); got != "add a true, add b false, delete a true, delete b false" {
			t.Errorf("handled: %s", got)
		}
	})
}

func TestAWaiterIsWokenWhenTheStoreShowsItsWrite(t *testing.T) {
	onKittest(t, cache.Options{}, func(t *testing.T, api *kittest.API, c *cache.Cache) {
		i := must(c.Informer(podKind, cache.Structured))
		a := pod("a", "")
		api.Create(t, a)
		synctest.Wait()
		api.DelayWatch(podKind, 10*time.Second)
		var mu sync.Mutex
		var woken []string
		wait := func(name string, w client.Write) func() {
			return i.WhenSeen(w, func() {
				mu.Lock()
				defer mu.Unlock()
				woken = append(woken, name)
			})
		}
		soFar := func() string {
			mu.Lock()
			defer mu.Unlock()
			return strings.Join(woken, ", ")
		}
		wait("old", client.Write{Key: client.KeyOf(a), UID: a.UID, ResourceVersion: a.ResourceVersion})
		a.Labels = map[string]string{"x": "y"}
		api.Update(t, a)
		next := client.Write{Key: client.KeyOf(a), UID: a.UID, ResourceVersion: a.ResourceVersion}
		wait("update", next)
		wait("cancelled", next)()
		b := pod("b", "")
		api.Create(t, b)
		api.Pass(time.Second)
		api.Remove(t, a)
		gone := client.Write{Key: client.KeyOf(a), UID: a.UID, Deleted: true}
		wait("delete", gone)
		if i.Seen(next) || i.Seen(gone) {
			t.Error("seen before the cache can know")
		}
		api.Pass(9500 * time.Millisecond)
		if got := soFar(); got != "old, update" {
			t.Errorf("woken: %s", got)
		}
		api.Pass(time.Second)
		if got := soFar(); got != "old, update, delete" {
			t.Errorf("woken: %s", got)
		}
		if !i.Seen(next) || !i.Seen(gone) || !i.Seen(client.Write{ResourceVersion: "odd"}) {
			t.Error("not seen in the end")
		}
	})
}
