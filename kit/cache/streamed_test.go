package cache_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"orrery/kit/cache"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

// gateway is what stands between a cache and its server. It counts what the cache asks for.
type gateway struct {
	http.RoundTripper
	unaware        bool   // it knows nothing of lists that come as events: it never says that these were all objects
	ends           string // the seconds after which it ends such a watch
	streams, lists atomic.Int32
}

// RoundTrip implements http.RoundTripper.
func (g *gateway) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	switch {
	case query.Get("watch") == "":
		g.lists.Add(1)
	case query.Get("sendInitialEvents") != "":
		g.streams.Add(1)
		if !g.unaware {
			break
		}
		query.Del("sendInitialEvents")
		query.Del("resourceVersion")
		if g.ends != "" {
			query.Set("timeoutSeconds", g.ends)
		}
		r = r.Clone(r.Context())
		r.URL.RawQuery = query.Encode()
	}
	return g.RoundTripper.RoundTrip(r)
}

// behind starts a cache of pods behind a gateway.
func behind(t *testing.T, g *gateway, test func(api *kittest.API, pods cache.Store[*corev1.Pod])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		config := api.Config("informers")
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			g.RoundTripper = next
			return g
		})
		c := cache.New(cache.Options{Client: must(client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: api.Client("").Mapper()}))})
		pods := must(cache.Of[corev1.Pod](c))
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(func() {
			cancel()
			c.Wait()
		})
		api.Create(t, pod("a", "n1"))
		c.Start(ctx)
		test(api, pods)
	})
}

func TestAServerThatNeverSaysThatTheseAreAllIsListed(t *testing.T) {
	for name, g := range map[string]*gateway{"silent": {unaware: true}, "ends the watch": {unaware: true, ends: "2"}} {
		t.Run(name, func(t *testing.T) {
			behind(t, g, func(api *kittest.API, pods cache.Store[*corev1.Pod]) {
				api.Pass(40 * time.Second)
				if i := pods.Informer(); !i.HasSynced() || i.LastError() != "" {
					t.Fatalf("synced %t after 40 s, error %q", i.HasSynced(), i.LastError())
				}
				for range 5 {
					api.Compact(podKind)
					api.Pass(2 * time.Minute)
				}
				api.Create(t, pod("b", "n1"))
				api.Remove(t, pod("a", "n1"))
				api.Pass(time.Second)
				if got := names(pods.List("")); got != "b" {
					t.Errorf("pods %s, want b", got)
				}
				if n := g.streams.Load(); n != 2 {
					t.Errorf("asked %d times for objects as events, want once more and then never again", n)
				}
				if n := g.lists.Load(); n != 6 {
					t.Errorf("%d lists, want one for the start and for each loss", n)
				}
			})
		})
	}
}

// Where nothing changes, neither before nor after a loss, the silence that follows is not that of such a server.
func TestAServerThatSaysThatTheseAreAllIsNotListed(t *testing.T) {
	g := &gateway{}
	behind(t, g, func(api *kittest.API, pods cache.Store[*corev1.Pod]) {
		api.Pass(10 * time.Minute)
		for range 5 {
			api.Compact(podKind)
			api.Pass(10 * time.Minute)
		}
		api.Create(t, pod("b", "n1"))
		api.Pass(time.Second)
		if got := names(pods.List("")); got != "a b" {
			t.Errorf("pods %s, want both", got)
		}
		if lists, streams := g.lists.Load(), g.streams.Load(); lists != 0 || streams != 6 {
			t.Errorf("%d lists and %d times the objects as events, want the latter for the start and each loss", lists, streams)
		}
	})
}
