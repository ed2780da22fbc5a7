package kit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit"
	"orrery/kit/kittest"
)

// calls remembers when each key was reconciled.
type calls[K comparable] struct {
	mu  sync.Mutex // guards all
	all []call[K]
}

type call[K comparable] struct {
	key K
	at  time.Time
}

func (c *calls[K]) add(key K) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, call[K]{key, time.Now()})
	for _, o := range c.all {
		if o.key == key {
			n++
		}
	}
	return n
}

func (c *calls[K]) keys() []K {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []K
	for _, o := range c.all {
		out = append(out, o.key)
	}
	return out
}

// gaps returns the time between the calls for a key.
func (c *calls[K]) gaps(key K) []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []time.Duration
	var last time.Time
	for _, o := range c.all {
		if o.key != key {
			continue
		}
		if !last.IsZero() {
			out = append(out, o.at.Sub(last).Round(time.Millisecond))
		}
		last = o.at
	}
	return out
}

// loop starts a controller of one function.
func loop[K comparable](t *testing.T, api *kittest.API, f func(context.Context, K) (kit.Result, error), sources ...kit.Source[K]) *kittest.Running {
	t.Helper()
	return api.Run(t, func(cc kit.ControllerContext) (bool, error) {
		return true, kit.NewController(cc, kit.Func[K](f)).Watch(sources...).Complete()
	})
}

func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func settings(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
}

func TestOutcomesDecideWhenAKeyComesBack(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("modified"))
	going := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("going"))
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	ms := time.Millisecond
	for _, c := range []struct {
		name  string
		first func(n int) (kit.Result, error) // of the first four calls; the fifth is done
		want  []time.Duration
	}{
		{"done", func(int) (kit.Result, error) { return kit.Done, nil }, nil},
		{"after", func(int) (kit.Result, error) { return kit.After(time.Minute), nil }, []time.Duration{time.Minute, time.Minute, time.Minute, time.Minute}},
		{"error", func(int) (kit.Result, error) { return kit.Done, errors.New("boom") }, []time.Duration{5 * ms, 10 * ms, 20 * ms, 40 * ms}},
		{"patient error", func(int) (kit.Result, error) {
			return kit.Done, fmt.Errorf("create: %w", kit.RetryFrom(time.Second, errors.New("full")))
		}, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}},
		{"error before its time", func(int) (kit.Result, error) { return kit.After(time.Minute), errors.New("boom") },
			[]time.Duration{5 * ms, 10 * ms, 20 * ms, 40 * ms}},
		{"error when it is time", func(int) (kit.Result, error) {
			return kit.After(3 * time.Second), kit.RetryFrom(2*time.Second, errors.New("full"))
		}, []time.Duration{2 * time.Second, 3 * time.Second, 3 * time.Second, 3 * time.Second}},
		{"panic", func(int) (kit.Result, error) { panic("boom") }, []time.Duration{5 * ms, 10 * ms, 20 * ms, 40 * ms}},
		{"conflict", func(int) (kit.Result, error) { return kit.Done, conflict }, []time.Duration{5 * ms, 10 * ms, 20 * ms, 40 * ms}},
		{"terminal", func(int) (kit.Result, error) { return kit.Done, kit.Terminal(errors.New("boom")) }, nil},
		{"dropped", func(int) (kit.Result, error) { return kit.Done, going }, nil},
		{"success resets the back-off", func(n int) (kit.Result, error) {
			if n == 3 {
				return kit.After(time.Second), nil
			}
			return kit.Done, errors.New("boom")
		}, []time.Duration{5 * ms, 10 * ms, time.Second, 5 * ms}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				api := kittest.New(t)
				api.AllowPanics()
				var seen calls[string]
				trigger := kit.NewTrigger[string]()
				loop(t, api, func(_ context.Context, key string) (kit.Result, error) {
					if n := seen.add(key); n < 5 {
						return c.first(n)
					}
					return kit.Done, nil
				}, trigger.Source())
				trigger.Add("a")
				time.Sleep(time.Hour)
				if got := seen.gaps("a"); !slices.Equal(got, c.want) {
					t.Errorf("came back after %v, want %v", got, c.want)
				}
				trigger.Add("a")
				api.Settle()
				if got := len(seen.keys()); got < len(c.want)+2 {
					t.Errorf("%d calls: a new change was not looked at", got)
				}
			})
		})
	}
}

func TestBackOffHasACap(t *testing.T) {
	for _, err := range []error{errors.New("boom"), kit.RetryFrom(7*time.Second, errors.New("full")), kit.RetryFrom(time.Hour, errors.New("full"))} {
		inBubble(t, func(t *testing.T) {
			api := kittest.New(t)
			var seen calls[string]
			loop(t, api, func(_ context.Context, key string) (kit.Result, error) {
				seen.add(key)
				return kit.Done, err
			}, kit.Every(24*time.Hour, "a"))
			time.Sleep(time.Hour)
			if got := seen.gaps("a"); got[len(got)-1] != time.Minute {
				t.Errorf("the last wait is %v, want 1m0s", got[len(got)-1])
			}
		})
	}
}

func TestAPoisonObjectStopsNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		api := kittest.New(t, settings("poison"), settings("good"))
		api.AllowPanics()
		var seen calls[kit.Key]
		angry := func(old, new *corev1.ConfigMap) bool {
			if new != nil && new.Name == "poison" {
				panic("filter")
			}
			return true
		}
		mapped := func(cm *corev1.ConfigMap) []kit.Key {
			if cm.Name == "poison" {
				panic("key function")
			}
			return []kit.Key{{Name: "mapped-" + cm.Name}}
		}
		r := loop(t, api, func(_ context.Context, key kit.Key) (kit.Result, error) {
			if n := seen.add(key); key.Name == "poison" && n < 3 {
				panic("reconcile")
			}
			return kit.Done, nil
		}, kit.For(angry), kit.Watches(mapped))
		api.Settle()
		got := seen.keys()
		want := map[string]int{"poison": 3, "good": 1, "mapped-good": 1, "mapped-poison": 0}
		for name, n := range want {
			have := 0
			for _, k := range got {
				if k.Name == name {
					have++
				}
			}
			if have != n {
				t.Errorf("%s was reconciled %d times, want %d", name, have, n)
			}
		}
		s := r.Controllers[0].State(time.Now())
		if s.Totals[kit.OutcomePanicked] != 2 || s.Totals[kit.OutcomeDone] != 3 {
			t.Errorf("totals %v", s.Totals)
		}
		api.Create(t, settings("later"))
		api.Settle()
		if !slices.Contains(seen.keys(), kit.Key{Namespace: "default", Name: "later"}) {
			t.Error("the informer is dead")
		}
	})
}

func TestABackgroundSourceThatPanicsBeginsAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		api := kittest.New(t)
		var seen calls[string]
		c := make(chan string)
		loop(t, api, func(_ context.Context, key string) (kit.Result, error) {
			seen.add(key)
			return kit.Done, nil
		}, kit.Every(time.Minute, "tick"), kit.Chan(c))
		c <- "sent"
		time.Sleep(3*time.Minute + time.Second)
		close(c)
		api.Settle()
		if got := seen.gaps("tick"); !slices.Equal(got, []time.Duration{time.Minute, time.Minute, time.Minute}) {
			t.Errorf("ticks at intervals of %v", got)
		}
		if !slices.Contains(seen.keys(), "sent") {
			t.Error("what was sent on the channel is lost")
		}
	})
}

func TestDelayedKeysWaitFromTheFirstChange(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		cm := settings("a")
		api := kittest.New(t, cm)
		var seen calls[kit.Key]
		loop(t, api, func(_ context.Context, key kit.Key) (kit.Result, error) {
			seen.add(key)
			return kit.Done, nil
		}, kit.For[corev1.ConfigMap]().Delayed(10*time.Second))
		synctest.Wait()
		for i := range 9 {
			time.Sleep(time.Second)
			cm.Data = map[string]string{"i": string(rune('a' + i))}
			api.Update(t, cm)
		}
		time.Sleep(time.Minute)
		if n := len(seen.keys()); n != 1 {
			t.Errorf("%d reconciles, want 1", n)
		}
	})
}

func TestUrgentSourcesOvertake(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		api := kittest.New(t)
		var seen calls[int]
		slow, fast := kit.NewTrigger[int](), kit.NewTrigger[int]()
		loop(t, api, func(_ context.Context, key int) (kit.Result, error) {
			seen.add(key)
			time.Sleep(time.Second)
			return kit.Done, nil
		}, slow.Source(), fast.Source().Urgent())
		for k := range 5 {
			slow.Add(k)
		}
		time.Sleep(500 * time.Millisecond) // 0 is being reconciled
		fast.Add(9)
		fast.Add(3)
		time.Sleep(time.Minute)
		if got := seen.keys(); !slices.Equal(got, []int{0, 9, 3, 1, 2, 4}) {
			t.Errorf("order %v", got)
		}
	})
}

func TestATriggerDelays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		api := kittest.New(t)
		var seen calls[int]
		trigger := kit.NewTrigger[int]()
		trigger.Add(0) // belongs to nothing yet
		loop(t, api, func(_ context.Context, key int) (kit.Result, error) {
			seen.add(key)
			return kit.Done, nil
		}, trigger.Source())
		start := time.Now()
		trigger.AddAfter(1, time.Minute)
		trigger.AddAfter(2, 30*time.Second)
		time.Sleep(time.Hour)
		if got := seen.keys(); !slices.Equal(got, []int{2, 1}) {
			t.Fatalf("order %v", got)
		}
		if at := seen.all[1].at.Sub(start).Round(time.Second); at != time.Minute {
			t.Errorf("key 1 came after %s, want 1m0s", at)
		}
	})
}

func TestNothingIsReconciledBeforeTheCachesAreFilled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		api := kittest.New(t, settings("a"))
		secrets := corev1.SchemeGroupVersion.WithKind("Secret")
		api.FreezeWatch(secrets, true)
		var seen calls[kit.Key]
		var ready atomic.Bool
		r := api.Run(t, func(cc kit.ControllerContext) (bool, error) {
			kit.Store[corev1.Secret](cc)
			return true, kit.NewController(cc, kit.Func[kit.Key](func(_ context.Context, key kit.Key) (kit.Result, error) {
				seen.add(key)
				return kit.Done, nil
			})).Watch(kit.For[corev1.ConfigMap](), kit.NewTrigger[kit.Key]().Source().Named("engine").WaitFor(ready.Load)).Complete()
		})
		time.Sleep(90 * time.Second)
		if n := len(seen.keys()); n != 0 {
			t.Errorf("%d reconciles while a cache is empty", n)
		}
		if err := r.Controllers[0].Healthy(time.Now()); err == nil {
			t.Error("healthy without its caches")
		}
		api.FreezeWatch(secrets, false)
		time.Sleep(5 * time.Second)
		if n := len(seen.keys()); n != 0 {
			t.Errorf("%d reconciles while a source is not ready", n)
		}
		ready.Store(true)
		time.Sleep(5 * time.Second)
		if n := len(seen.keys()); n != 1 {
			t.Errorf("%d reconciles, want 1", n)
		}
	})
}

func TestDeletesThatWereMissedArriveAsDeletes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		api := kittest.New(t, settings("a"))
		maps := corev1.SchemeGroupVersion.WithKind("ConfigMap")
		var deleted calls[string]
		loop(t, api, func(context.Context, string) (kit.Result, error) { return kit.Done, nil },
			kit.WatchChanges(func(old, new *corev1.ConfigMap) []string {
				if new == nil {
					deleted.add(old.Name)
				}
				return nil
			}))
		api.Settle()
		api.FreezeWatch(maps, true)
		api.Remove(t, settings("a"))
		api.Compact(maps)
		api.FreezeWatch(maps, false)
		time.Sleep(time.Minute)
		if got := deleted.keys(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("deletes seen: %v", got)
		}
	})
}
