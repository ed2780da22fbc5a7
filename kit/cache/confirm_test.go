package cache_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"orrery/kit/cache"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

// told notes what a handler is told, as words.
type told struct{ words []string }

func (h *told) handle(old, new client.Object, listed bool) {
	word := "changed"
	obj := new
	switch {
	case old == nil && listed:
		word = "listed"
	case old == nil:
		word = "created"
	case new == nil:
		word, obj = "deleted", old
	}
	h.words = append(h.words, word+" "+obj.GetName())
}

func (h *told) take() string {
	out := strings.Join(slices.Sorted(slices.Values(h.words)), ", ")
	h.words = nil
	return out
}

// onStandby runs a test with a cache of pods that is warm and has not been started.
func onStandby(t *testing.T, test func(t *testing.T, api *kittest.API, c *cache.Cache, pods cache.Store[*corev1.Pod], ctx context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		c := cache.New(cache.Options{Client: api.Client("informers")})
		pods := must(cache.Of(c, podsByNode))
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(func() {
			cancel()
			c.Wait()
		})
		for _, name := range []string{"a", "b"} {
			api.Create(t, pod(name, "n1"))
		}
		c.Warm(ctx)
		api.Pass(time.Minute)
		test(t, api, c, pods, ctx)
	})
}

func TestAWarmCacheTellsNobodyBeforeItIsStarted(t *testing.T) {
	onStandby(t, func(t *testing.T, api *kittest.API, c *cache.Cache, pods cache.Store[*corev1.Pod], ctx context.Context) {
		var one, two told
		reg := must(pods.Informer().AddHandler(one.handle))
		must(pods.Informer().AddHandler(two.handle))
		api.Create(t, pod("c", "n1"))
		api.Remove(t, pod("a", "n1"))
		synctest.Wait()
		if got := names(pods.List("")); got != "b c" || !pods.Informer().HasSynced() {
			t.Errorf("the warm cache holds %q, synced %t", got, pods.Informer().HasSynced())
		}
		if got := one.take(); got != "" || reg.HasSynced() || c.Started() {
			t.Errorf("told of %q before the start; the handler counts as synced: %t, the cache as started: %t", got, reg.HasSynced(), c.Started())
		}
		c.Start(ctx)
		synctest.Wait()
		if got := one.take(); got != "listed b, listed c" || two.take() != got || !reg.HasSynced() || !c.Started() {
			t.Errorf("told of %q at the start, and synced: %t", got, reg.HasSynced())
		}
		var late told
		must(pods.Informer().AddHandler(late.handle))
		api.Create(t, pod("d", "n2"))
		synctest.Wait()
		if got := one.take(); got != "created d" || late.take() != "created d, listed b, listed c" {
			t.Errorf("told of %q after the start", got)
		}
	})
}

func TestAnUpToDateCacheIsConfirmedAtOnce(t *testing.T) {
	onStandby(t, func(t *testing.T, api *kittest.API, c *cache.Cache, pods cache.Store[*corev1.Pod], ctx context.Context) {
		// Other kinds have changed since, so that the version of the pods is not the latest.
		api.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "newer"}})
		synctest.Wait()
		c.Confirm(ctx)
		start := time.Now()
		api.Pass(10 * time.Millisecond)
		if !pods.Informer().HasSynced() {
			t.Errorf("still in doubt after %v", time.Since(start))
		}
	})
}

// TestACacheThatIsBehindIsNotTrusted: whatever it is that a watch has not shown, it has to be shown first.
func TestACacheThatIsBehindIsNotTrusted(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *kittest.API){
		"a new object": func(t *testing.T, api *kittest.API) { api.Create(t, pod("c", "n1")) },
		"a changed object": func(t *testing.T, api *kittest.API) {
			p := pod("b", "n1")
			api.Get(t, p)
			p.Labels["x"] = "y"
			api.Update(t, p)
		},
		"a deleted object": func(t *testing.T, api *kittest.API) { api.Remove(t, pod("a", "n1")) },
		"a replaced object": func(t *testing.T, api *kittest.API) {
			api.Remove(t, pod("a", "n1"))
			api.Create(t, pod("a", "n2"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			onStandby(t, func(t *testing.T, api *kittest.API, c *cache.Cache, pods cache.Store[*corev1.Pod], ctx context.Context) {
				api.FreezeWatch(podKind, true)
				change(t, api)
				want := versions(t, api)
				c.Confirm(ctx)
				c.Start(ctx)
				api.Pass(time.Second)
				if pods.Informer().HasSynced() {
					t.Fatal("trusted although it is behind")
				}
				api.FreezeWatch(podKind, false)
				api.Pass(50 * time.Millisecond)
				if !pods.Informer().HasSynced() || cached(pods) != want {
					t.Errorf("caught up: trusted %t, holds %s, want %s", pods.Informer().HasSynced(), cached(pods), want)
				}
			})
			onStandby(t, func(t *testing.T, api *kittest.API, c *cache.Cache, pods cache.Store[*corev1.Pod], ctx context.Context) {
				api.DelayWatch(podKind, time.Hour) // longer than anyone waits
				change(t, api)
				want := versions(t, api)
				c.Confirm(ctx)
				c.Start(ctx)
				for range 100 {
					api.Pass(100 * time.Millisecond)
					if pods.Informer().HasSynced() {
						break
					}
				}
				if !pods.Informer().HasSynced() || cached(pods) != want {
					t.Errorf("not listed anew: trusted %t, holds %s, want %s", pods.Informer().HasSynced(), cached(pods), want)
				}
			})
		})
	}
}

// restorable is a server whose storage can be replaced by a backup.
type restorable struct {
	http.RoundTripper
	backup   http.RoundTripper
	restored atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (s *restorable) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.restored.Load() {
		return s.backup.RoundTrip(r)
	}
	return s.RoundTripper.RoundTrip(r)
}

// TestTheCacheOfARestoredServerIsListedAnew: its watch goes on at a version that the server has yet to reach again, and
// shows nothing until then, as in k/k#107457.
func TestTheCacheOfARestoredServerIsListedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, backup := kittest.New(t), kittest.New(t)
		server := &restorable{backup: must(rest.TransportFor(backup.Config("informers")))}
		config := api.Config("informers")
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			server.RoundTripper = next
			return server
		})
		c := cache.New(cache.Options{Client: must(client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: api.Client("").Mapper()}))})
		pods := must(cache.Of(c, podsByNode))
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(func() {
			cancel()
			c.Wait()
		})
		backup.Create(t, pod("a", "n1"))
		backup.Create(t, pod("c", "n1"))
		for _, name := range []string{"a", "b", "x", "y"} {
			api.Create(t, pod(name, "n1"))
		}
		api.Remove(t, pod("x", "n1"))
		api.Remove(t, pod("y", "n1"))
		c.Warm(ctx)
		api.Pass(time.Minute)
		server.restored.Store(true)
		api.BreakWatch(podKind)
		api.Pass(time.Minute)
		if got := names(pods.List("")); got != "a b" {
			t.Fatalf("the watch shows %s: this is not the case in question", got)
		}
		c.Confirm(ctx)
		c.Start(ctx)
		for range 100 {
			api.Pass(100 * time.Millisecond)
			if pods.Informer().HasSynced() {
				break
			}
		}
		if want := versions(t, backup); !pods.Informer().HasSynced() || cached(pods) != want {
			t.Errorf("trusted %t, holds %s, want %s", pods.Informer().HasSynced(), cached(pods), want)
		}
		backup.Create(t, pod("b", "n1"))
		api.Pass(time.Second)
		if want := versions(t, backup); cached(pods) != want {
			t.Errorf("afterwards: holds %s, want %s", cached(pods), want)
		}
	})
}

// versions returns the pods of the server, with their versions.
func versions(t *testing.T, api *kittest.API) string {
	t.Helper()
	var all []string
	for _, name := range []string{"a", "b", "c"} {
		if p := pod(name, ""); api.Get(t, p) {
			all = append(all, fmt.Sprint(name, "@", p.ResourceVersion))
		}
	}
	return strings.Join(all, " ")
}

// cached returns the same of a cache.
func cached(pods cache.Store[*corev1.Pod]) string {
	var all []string
	for _, p := range pods.List("") {
		all = append(all, fmt.Sprint(p.Name, "@", p.ResourceVersion))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestABigCacheIsComparedWithoutNeedOnlyToBegin: where the first work waits for it the comparison begins at once. Later one
// look at the version is enough, if the cache is fed.
func TestABigCacheIsComparedWithoutNeedOnlyToBegin(t *testing.T) {
	onStandby(t, func(t *testing.T, api *kittest.API, c *cache.Cache, pods cache.Store[*corev1.Pod], ctx context.Context) {
		for i := range 300 {
			api.Create(t, pod(fmt.Sprint("p", i), "n1"))
		}
		synctest.Wait()
		lists := 0
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "list" {
				lists++
			}
			return nil
		})
		caught := 0
		expect := func(when string, wantLists, wantCaught int) {
			t.Helper()
			if api.Pass(50 * time.Millisecond); lists != wantLists || caught != wantCaught {
				t.Errorf("%s: %d lists, want %d; %d times caught up, want %d", when, lists, wantLists, caught, wantCaught)
			}
			lists = 0
		}
		c.Confirm(ctx)
		if expect("to begin", 1, 0); !pods.Informer().HasSynced() {
			t.Error("in doubt after the comparison")
		}
		c.WhenCaughtUp(pods.Informer(), func() { caught++ })
		expect("fed", 1, 1)
		api.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "newer"}}) // has the latest version
		c.WhenCaughtUp(pods.Informer(), func() { caught++ })
		expect("not fed", 2, 2)
	})
}

func TestACacheThatCannotBeComparedStaysInDoubt(t *testing.T) {
	onStandby(t, func(t *testing.T, api *kittest.API, c *cache.Cache, pods cache.Store[*corev1.Pod], ctx context.Context) {
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "list" {
				return &kittest.Reaction{Err: errors.New("no route")}
			}
			return nil
		})
		c.Confirm(ctx)
		api.Pass(time.Minute)
		if pods.Informer().HasSynced() {
			t.Error("trusted without a comparison")
		}
		api.Unreact()
		api.Pass(time.Second)
		if !pods.Informer().HasSynced() {
			t.Error("in doubt although the server answers")
		}
	})
}

// TestNewInformersLetThoseInDoubtGoFirst, but not for long: what is in doubt may stay so.
func TestNewInformersLetThoseInDoubtGoFirst(t *testing.T) {
	for name, after := range map[string]struct {
		freed bool
		pass  time.Duration
	}{"until they are confirmed": {true, 150 * time.Millisecond}, "and not for ever": {false, time.Second}} {
		t.Run(name, func(t *testing.T) {
			onStandby(t, func(t *testing.T, api *kittest.API, c *cache.Cache, pods cache.Store[*corev1.Pod], ctx context.Context) {
				api.FreezeWatch(podKind, true)
				api.Create(t, pod("c", "n1"))
				c.Confirm(ctx)
				c.Start(ctx)
				maps := must(c.Informer(mapKind, cache.MetadataOnly))
				api.Pass(100 * time.Millisecond)
				if maps.HasSynced() {
					t.Error("a new informer has listed before the pods were confirmed")
				}
				api.FreezeWatch(podKind, !after.freed)
				api.Pass(after.pass)
				if !maps.HasSynced() || pods.Informer().HasSynced() != after.freed {
					t.Errorf("after %v: new informer filled %t, want true; pods trusted %t, want %t", after.pass, maps.HasSynced(), pods.Informer().HasSynced(), after.freed)
				}
			})
		})
	}
}

func TestEveryFormAndPartIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		api.AddKind(widgetKind, "widgets", true)
		c := cache.New(cache.Options{Client: api.Client("informers"), Namespaces: []string{"x", "y"}})
		maps := must(c.Informer(mapKind, cache.MetadataOnly))
		widgets := must(cache.OfKind[unstructured.Unstructured](c, widgetKind)).Informer()
		for _, ns := range []string{"x", "y", "z"} {
			api.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "m"}})
		}
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(func() {
			cancel()
			c.Wait()
		})
		c.Start(ctx)
		api.Pass(time.Second)
		api.FreezeWatch(mapKind, true)
		api.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "y", Name: "n"}})
		c.Confirm(ctx)
		api.Pass(time.Second)
		if !widgets.HasSynced() || maps.HasSynced() {
			t.Errorf("trusted: widgets %t, want true, and maps %t, want false", widgets.HasSynced(), maps.HasSynced())
		}
		api.FreezeWatch(mapKind, false)
		api.Pass(time.Second)
		if !maps.HasSynced() || maps.Len() != 3 {
			t.Errorf("maps: trusted %t, %d of them", maps.HasSynced(), maps.Len())
		}
	})
}
