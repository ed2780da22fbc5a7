package cache_test

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/cache"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

func podIn(namespace, name string) *corev1.Pod {
	p := pod(name, "")
	p.Namespace = namespace
	return p
}

func keysOf[P client.Object](objs []P) []string {
	var out []string
	for _, o := range objs {
		out = append(out, o.GetNamespace()+"/"+o.GetName())
	}
	slices.Sort(out)
	return out
}

func TestACacheOfSeveralNamespacesIsOne(t *testing.T) {
	onKittest(t, cache.Options{Namespaces: []string{"red", "blue"}}, func(t *testing.T, api *kittest.API, c *cache.Cache) {
		byApp := cache.Index[*corev1.Pod]{Name: "app", Keys: func(p *corev1.Pod) []string { return []string{p.Labels["app"], "any"} }}
		pods := must(cache.Of[corev1.Pod](c, byApp))
		nodes := must(cache.Of[corev1.Node](c))
		var events []string
		var inside atomic.Int32
		reg := must(pods.Informer().AddHandler(func(old, new client.Object, _ bool) {
			if inside.Add(1) > 1 {
				t.Error("two changes at once")
			}
			defer inside.Add(-1)
			runtime.Gosched()
			if new != nil {
				events = append(events, new.GetNamespace()+"/"+new.GetName())
			} else {
				events = append(events, "-"+old.GetNamespace()+"/"+old.GetName())
			}
		}))
		for _, ns := range []string{"red", "blue", "green"} {
			api.Create(t, podIn(ns, "a"))
		}
		api.Create(t, podIn("red", "b"))
		api.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		api.Pass(time.Second)
		i := pods.Informer()
		if !i.HasSynced() || !reg.HasSynced() || nodes.Len() != 1 {
			t.Errorf("synced %t, handler %t, %d nodes", i.HasSynced(), reg.HasSynced(), nodes.Len())
		}
		if got, want := keysOf(pods.List("")), []string{"blue/a", "red/a", "red/b"}; !slices.Equal(got, want) || pods.Len() != 3 || len(i.List("")) != 3 {
			t.Errorf("all: %q, want %q", got, want)
		}
		if got := keysOf(pods.List("red")); !slices.Equal(got, []string{"red/a", "red/b"}) || len(pods.List("green")) != 0 {
			t.Errorf("of a namespace: %q", got)
		}
		if got := keysOf(pods.By(byApp, "any")); len(got) != 3 || pods.Count(byApp, "any") != 3 || !slices.Equal(pods.Values(byApp), []string{"any", "kit"}) {
			t.Errorf("by index: %q, %d, %q", got, pods.Count(byApp, "any"), pods.Values(byApp))
		}
		if _, ok := pods.Get(client.Key{Namespace: "blue", Name: "a"}); !ok {
			t.Error("one is not found")
		}
		if _, ok := pods.Get(client.Key{Namespace: "green", Name: "a"}); ok || i.Covers("green") || !i.Covers("red") || !i.Covers("") {
			t.Error("the bounds are not known")
		}
		api.Delete(t, podIn("blue", "a"))
		api.Pass(time.Second)
		slices.Sort(events)
		if want := []string{"-blue/a", "blue/a", "red/a", "red/b"}; !slices.Equal(events, want) {
			t.Errorf("events %q, want %q", events, want)
		}
		reg.Remove()
		api.Create(t, podIn("red", "late"))
		api.Pass(time.Second)
		if len(events) != 4 || pods.Len() != 3 {
			t.Errorf("%d events after the handler was removed, %d pods", len(events), pods.Len())
		}
	})
}

// TestEachNamespaceShowsItsOwnWrites: that one namespace has gone further says nothing of another.
func TestEachNamespaceShowsItsOwnWrites(t *testing.T) {
	onKittest(t, cache.Options{Namespaces: []string{"red", "blue"}}, func(t *testing.T, api *kittest.API, c *cache.Cache) {
		i := must(cache.Of[corev1.Pod](c)).Informer()
		api.Pass(time.Second)
		var log client.WriteLog
		writer, ctx := api.Client("writer"), client.WithWriteLog(t.Context(), &log)
		api.FreezeWatch(podKind, true)
		must(client.Create(ctx, writer, podIn("red", "r")))
		must(client.Create(ctx, writer, podIn("green", "g")))
		writes := log.Take()
		woken := 0
		cancel := i.WhenSeen(writes[0], func() { woken++ })
		defer cancel()
		api.Pass(time.Second)
		if i.Seen(writes[0]) || woken != 0 {
			t.Error("seen while the watch stands still")
		}
		if !i.Seen(writes[1]) || i.Concerns(writes[1]) {
			t.Error("a write elsewhere is waited for")
		}
		i.WhenSeen(writes[1], func() { woken++ })
		if woken != 1 {
			t.Error("who waits for a write elsewhere is not woken at once")
		}
		api.FreezeWatch(podKind, false)
		api.Pass(time.Second)
		if !i.Seen(writes[0]) || woken != 2 {
			t.Errorf("not seen, woken %d times", woken)
		}
	})
}

func TestAFailureOfOneNamespaceIsNamed(t *testing.T) {
	onKittest(t, cache.Options{Namespaces: []string{"red", "blue"}}, func(t *testing.T, api *kittest.API, c *cache.Cache) {
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Namespace == "blue" {
				return kittest.Refuse(403, "not for you")
			}
			return nil
		})
		i := must(cache.Of[corev1.Pod](c)).Informer()
		api.Pass(time.Second)
		if i.HasSynced() || i.LastError() != `pods "" is forbidden: not for you (namespace blue)` && i.LastError() != "not for you (namespace blue)" {
			t.Errorf("synced %t, last error %q", i.HasSynced(), i.LastError())
		}
		api.Unreact()
		api.Pass(time.Minute)
		if !i.HasSynced() || i.LastError() != "" {
			t.Errorf("synced %t, last error %q", i.HasSynced(), i.LastError())
		}
	})
}

func TestAKindIsCachedAsItsOptionsSay(t *testing.T) {
	kinds := map[schema.GroupVersionKind]cache.Kind{
		podKind: {Labels: "app=web", Namespaces: []string{"red"}},
		mapKind: {Fields: "metadata.name=only"},
	}
	onKittest(t, cache.Options{Kinds: kinds}, func(t *testing.T, api *kittest.API, c *cache.Cache) {
		pods, maps := must(cache.Of[corev1.Pod](c)), must(cache.Of[corev1.ConfigMap](c))
		for _, ns := range []string{"red", "blue"} {
			web := podIn(ns, "web")
			web.Labels = map[string]string{"app": "web"}
			api.Create(t, web)
			api.Create(t, podIn(ns, "other"))
		}
		for _, name := range []string{"only", "other"} {
			api.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
		}
		api.Pass(time.Second)
		if got := keysOf(pods.List("")); !slices.Equal(got, []string{"red/web"}) {
			t.Errorf("pods %q", got)
		}
		if got := keysOf(maps.List("")); !slices.Equal(got, []string{"default/only"}) {
			t.Errorf("config maps %q", got)
		}
		i := pods.Informer()
		for _, tc := range []struct {
			name  string
			write client.Write
			want  bool
		}{
			{"selected", client.Write{Key: client.Key{Namespace: "red", Name: "new"}, Labels: map[string]string{"app": "web"}}, true},
			{"not selected", client.Write{Key: client.Key{Namespace: "red", Name: "new"}}, false},
			{"no longer selected", client.Write{Key: client.Key{Namespace: "red", Name: "web"}}, true},
			{"deleted", client.Write{Key: client.Key{Namespace: "red", Name: "x"}, Deleted: true}, true},
			{"elsewhere", client.Write{Key: client.Key{Namespace: "blue", Name: "web"}, Labels: map[string]string{"app": "web"}}, false},
		} {
			if got := i.Concerns(tc.write); got != tc.want {
				t.Errorf("%s: concerns the cache %t, want %t", tc.name, got, tc.want)
			}
		}
	})
	for _, bad := range []cache.Kind{{Labels: "=="}, {Fields: "=a=b,"}} {
		synctest.Test(t, func(t *testing.T) {
			c := cache.New(cache.Options{Client: kittest.New(t).Client("informers"), Kinds: map[schema.GroupVersionKind]cache.Kind{podKind: bad}})
			if _, err := cache.Of[corev1.Pod](c); err == nil {
				t.Errorf("%+v: no error", bad)
			}
		})
	}
}

// TestMetadataOfAStructuredKindOnRequest has an informer of its own where the Go type of the objects matters.
func TestMetadataOfAStructuredKindOnRequest(t *testing.T) {
	onKittest(t, cache.Options{}, func(t *testing.T, api *kittest.API, c *cache.Cache) {
		whole := must(cache.Of[corev1.Pod](c))
		meta := must(cache.OfKind[metav1.PartialObjectMetadata](c, podKind))
		api.Create(t, pod("a", ""))
		api.Pass(time.Second)
		if m, ok := meta.Get(client.Key{Namespace: "default", Name: "a"}); !ok || m.Kind != "Pod" || whole.Len() != 1 {
			t.Errorf("%v %t", m, ok)
		}
		if meta.Informer() == whole.Informer() || len(c.Serving(podKind)) != 2 {
			t.Error("both forms have one informer")
		}
		cached := api.Client("reader").WithCache(c)
		reads := 0
		api.React(func(*kittest.Request) *kittest.Reaction { reads++; return nil })
		got, err := client.Get[metav1.PartialObjectMetadata](t.Context(), cached, client.Key{Namespace: "default", Name: "a"}, client.Kind(podKind))
		if err != nil || got.Name != "a" || reads != 0 {
			t.Errorf("%v, %v, %d calls; want it from the cache", got, err, reads)
		}
		if _, err := client.Get[corev1.Pod](t.Context(), cached.Uncached(podKind), client.Key{Namespace: "default", Name: "a"}); err != nil || reads != 1 {
			t.Errorf("%v, %d calls; want it live", err, reads)
		}
	})
}
