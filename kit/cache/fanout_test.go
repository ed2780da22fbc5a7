package cache_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orrery/kit/cache"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

// heard keeps what a handler is told.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) handler(old, new client.Object, listed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case old == nil && listed:
		h.lines = append(h.lines, "listed "+new.GetName())
	case old == nil:
		h.lines = append(h.lines, "added "+new.GetName())
	case new == nil:
		h.lines = append(h.lines, "gone "+old.GetName())
	default:
		h.lines = append(h.lines, "changed "+new.GetName())
	}
}

func (h *heard) is(t *testing.T, who string, want ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.lines, want) {
		t.Errorf("the %s handler heard %v, want %v", who, h.lines, want)
	}
}

// TestEveryHandlerHearsEverything adds handlers before and after the start, and takes one away: each hears of all
// objects once, in order, from its first moment to its last.
func TestEveryHandlerHearsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		user := api.Client("user")
		c := cache.New(cache.Options{Client: api.Client("informers")})
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(func() {
			cancel()
			c.Wait()
		})
		must(client.Create(t.Context(), user, pod("old", "")))
		informer := must(c.Informer(podKind, cache.Structured))
		var first, second, late heard
		regFirst := must(informer.AddHandler(first.handler))
		regSecond := must(informer.AddHandler(second.handler))
		if regFirst.HasSynced() || regSecond.HasSynced() {
			t.Error("handlers have seen the first list before there was one")
		}
		c.Start(ctx)
		synctest.Wait()
		if !regFirst.HasSynced() || !regSecond.HasSynced() {
			t.Error("handlers have not seen the first list")
		}
		regLate := must(informer.AddHandler(late.handler))
		created := must(client.Create(t.Context(), user, pod("new", "")))
		synctest.Wait()
		regSecond.Remove()
		must(client.PatchObject[corev1.Pod](t.Context(), user, created, client.MergePatch([]byte(`{"metadata":{"labels":{"a":"b"}}}`))))
		synctest.Wait()
		regLate.Remove()
		if err := client.Delete(t.Context(), user, created); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		first.is(t, "first", "listed old", "added new", "changed new", "gone new")
		second.is(t, "removed", "listed old", "added new")
		late.is(t, "late", "listed old", "added new", "changed new")
	})
}

// A handler may read through the cache whatever has piled up behind it.
func TestAHandlerReadsThroughTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		c := cache.New(cache.Options{Client: api.Client("informers")})
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(func() {
			cancel()
			c.Wait()
		})
		informer := must(c.Informer(podKind, cache.Structured))
		held, found := make(chan struct{}), 0
		must(informer.AddHandler(func(_, new client.Object, _ bool) {
			<-held
			if _, cached, err := c.GetCached(podKind, &corev1.Pod{}, client.KeyOf(new)); cached && err == nil {
				found++
			}
		}))
		c.Start(ctx)
		synctest.Wait()
		const pods = 3200 // so many behind a batch of a thousand that the informer takes in no more meanwhile
		for i := range pods {
			api.Create(t, pod(fmt.Sprint("p", i), ""))
		}
		synctest.Wait()
		close(held)
		synctest.Wait()
		if found != pods {
			t.Errorf("found %d of %d pods", found, pods)
		}
	})
}

// A list that brings nothing new is no change; a resync shows every object.
func TestOnlyAResyncRepeatsWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		c := cache.New(cache.Options{Client: api.Client("informers"), Resync: 10 * time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(func() {
			cancel()
			c.Wait()
		})
		api.Create(t, pod("a", ""))
		informer := must(c.Informer(podKind, cache.Structured))
		var h heard
		must(informer.AddHandler(h.handler))
		c.Start(ctx)
		synctest.Wait()
		api.Compact(podKind)
		api.Pass(5 * time.Hour)
		h.is(t, "early", "listed a")
		api.Pass(7 * time.Hour)
		h.is(t, "early", "listed a", "changed a")
	})
}
