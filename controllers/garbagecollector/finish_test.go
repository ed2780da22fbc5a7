package garbagecollector

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/client"
	"orrery/kit/kittest"
)

func TestForegroundDeletionGoesFromTheLeavesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		a := configMap("a")
		l.add(a)
		b := widget("b", blocking(by(a)))
		l.add(b)
		c, d := pod("c", blocking(by(b))), pod("d", by(a))
		l.add(c, d)
		l.start()
		var mu sync.Mutex // guards order
		var order []string
		l.React(func(r *kittest.Request) *kittest.Reaction {
			if r.User == Name && (r.Verb == "patch" || r.Verb == "delete") {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, r.Verb+" "+r.Name)
			}
			return nil
		})
		l.deleteIn(metav1.DeletePropagationForeground, a)
		l.Settle()
		l.gone(a, b, c, d)
		mu.Lock()
		defer mu.Unlock()
		order = slices.DeleteFunc(order, func(s string) bool { return strings.HasSuffix(s, " d") })
		want := []string{"delete b", "delete c", "patch b", "patch a"}
		if !slices.Equal(order, want) {
			t.Errorf("writes %v, want %v", order, want)
		}
		l.noErrors()
	})
}

func TestAForegroundOwnerWaitsForWhatBlocksItOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		a := configMap("a")
		l.add(a)
		b, c := pod("b", blocking(by(a))), pod("c", by(a))
		b.Finalizers, c.Finalizers = []string{"example.com/hold"}, []string{"example.com/hold"}
		l.add(b, c)
		l.start()
		l.deleteIn(metav1.DeletePropagationForeground, a)
		l.Settle()
		l.kept(a, b, c)
		for _, p := range []*corev1.Pod{b, c} {
			if l.Get(t, p); p.DeletionTimestamp == nil {
				t.Errorf("%s is not being deleted", p.Name)
			}
		}
		b.Finalizers = nil
		l.Update(t, b)
		l.Settle()
		l.gone(a, b)
		l.kept(c)
		l.noErrors()
	})
}

// An owner that is held by somebody else's finalizer stays when it waits no more, and then keeps what it still owns.
func TestWhatDoesNotBlockAForegroundOwnerIsDeletedBeforeItWaitsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		a, other := configMap("a"), configMap("other")
		a.Finalizers = []string{"example.com/hold"}
		l.add(a, other)
		b, c := pod("b", by(a)), widget("c", by(a), by(other))
		l.add(b, c)
		l.start()
		l.React(func(r *kittest.Request) *kittest.Reaction {
			if r.User == Name && r.Verb == "get" && r.Name == "a" {
				time.Sleep(time.Second) // the owner's finalizer could go meanwhile
			}
			return nil
		})
		l.deleteIn(metav1.DeletePropagationForeground, a)
		time.Sleep(time.Minute)
		l.Settle()
		l.gone(b)
		if got := l.owners(c); got != "other" {
			t.Errorf("c is owned by %q, want other", got)
		}
		if l.Get(t, a); !slices.Equal(a.Finalizers, []string{"example.com/hold"}) {
			t.Errorf("finalizers %v, want the other one only", a.Finalizers)
		}
		l.noErrors()
	})
}

func TestAForegroundOwnerIsNotHeldByWhatDoesNotBlockItAndCannotBeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		a := configMap("a")
		a.Finalizers = []string{"example.com/hold"}
		l.add(a)
		b := pod("b", by(a))
		l.add(b)
		l.start()
		var refuse atomic.Bool
		refuse.Store(true)
		l.React(func(r *kittest.Request) *kittest.Reaction {
			if refuse.Load() && r.Verb == "delete" && r.Name == "b" {
				return kittest.Refuse(http.StatusForbidden, "not this one")
			}
			return nil
		})
		l.deleteIn(metav1.DeletePropagationForeground, a)
		l.Settle()
		l.kept(b)
		if l.Get(t, a); !slices.Equal(a.Finalizers, []string{"example.com/hold"}) {
			t.Errorf("finalizers %v, want the other one only", a.Finalizers)
		}
		refuse.Store(false)
		a.Finalizers = nil
		l.Update(t, a)
		time.Sleep(time.Hour)
		l.Settle()
		l.gone(a, b)
	})
}

// Another owner that stays keeps the dependent; the one that waits is not made to wait for it.
func TestADependentWithAnotherOwnerLeavesTheOneThatWaits(t *testing.T) {
	for _, kind := range []string{"built-in", "custom"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t)
				a, b := configMap("a"), configMap("b")
				l.add(a, b)
				var p client.Object = pod("p", blocking(by(a)), blocking(by(b)))
				if kind == "custom" {
					p = widget("p", blocking(by(a)), blocking(by(b)))
				}
				l.add(p)
				l.start()
				l.deleteIn(metav1.DeletePropagationForeground, a)
				l.Settle()
				l.gone(a)
				l.kept(p)
				if got := l.owners(p); got != "b" {
					t.Errorf("owned by %q, want b", got)
				}
				l.noErrors()
			})
		})
	}
}

func TestObjectsThatOwnEachOtherInACircleAreDeleted(t *testing.T) { // GC-05
	for _, size := range []int{1, 2, 3, 7} {
		for _, kind := range []string{"pods", "widgets"} {
			t.Run(fmt.Sprint(size, " ", kind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLab(t)
					var all []client.Object
					for i := range size {
						var o client.Object = pod(fmt.Sprint("n", i))
						if kind == "widgets" {
							o = widget(fmt.Sprint("n", i))
						}
						l.add(o)
						all = append(all, o)
					}
					for i, o := range all {
						o.SetOwnerReferences([]metav1.OwnerReference{blocking(by(all[(i+1)%size]))})
						l.Update(t, o)
					}
					l.start()
					l.deleteIn(metav1.DeletePropagationForeground, all[0])
					l.Settle()
					l.gone(all...)
					l.noErrors()
				})
			})
		}
	}
}

func TestOrphaningKeepsDependents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		a, b := configMap("a"), configMap("b")
		l.add(a, b)
		p, w := pod("p", blocking(by(a)), by(b)), widget("w", by(a))
		l.add(p, w)
		l.start()
		l.deleteIn(metav1.DeletePropagationOrphan, a)
		l.Settle()
		l.gone(a)
		l.kept(p, w)
		if l.owners(p) != "b" || l.owners(w) != "" {
			t.Errorf("p is owned by %q and w by %q, want b and none", l.owners(p), l.owners(w))
		}
		l.noErrors()
	})
}

// A dependent has changed, and another has given its name to a new object, and no watch shows it yet.
func TestOrphaningMeetsDependentsThatTheCacheDoesNotShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		a := configMap("a")
		l.add(a)
		w, v, p := widget("w", by(a)), widget("v", by(a)), pod("p", by(a))
		l.add(w, v, p)
		l.start()
		l.FreezeWatch(widgetKind, true)
		l.FreezeWatch(corev1.SchemeGroupVersion.WithKind("Pod"), true)
		w.SetLabels(map[string]string{"changed": "yes"})
		l.Update(t, w)
		l.Remove(t, v)
		l.Remove(t, p)
		v2, p2 := widget("v"), pod("p")
		l.add(v2, p2)
		l.deleteIn(metav1.DeletePropagationOrphan, a)
		l.Settle()
		l.gone(a)
		l.kept(w, v2, p2)
		if got := l.owners(w); got != "" {
			t.Errorf("w is owned by %q, want nobody", got)
		}
		l.noErrors()
	})
}

// The object's own finalizers say how it is deleted when its owner is gone.
func TestDeletionFollowsTheFinalizersOfTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		a := configMap("a")
		l.add(a)
		keeps, takes := configMap("keeps", by(a)), configMap("takes", by(a))
		keeps.Finalizers = []string{metav1.FinalizerOrphanDependents}
		takes.Finalizers = []string{metav1.FinalizerDeleteDependents}
		l.add(keeps, takes)
		p, q := pod("p", by(keeps)), pod("q", blocking(by(takes)))
		l.add(p, q)
		l.start()
		l.Delete(t, a)
		l.Settle()
		l.gone(keeps, takes, q)
		l.kept(p)
		if got := l.owners(p); got != "" {
			t.Errorf("p is owned by %q, want nobody", got)
		}
		l.noErrors()
	})
}

// Somebody else's finalizer keeps an object through several deletions, each of which adds the collector's own anew.
func TestWhatIsDeletedAgainIsFinishedAgain(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t)
				a := configMap("a")
				a.Finalizers = []string{"example.com/hold"}
				l.add(a)
				l.start()
				for range 3 {
					l.deleteIn(policy, a)
					l.Settle()
					if l.Get(t, a); !slices.Equal(a.Finalizers, []string{"example.com/hold"}) {
						t.Fatalf("finalizers are %v", a.Finalizers)
					}
				}
				a.Finalizers = nil
				l.Update(t, a)
				l.Settle()
				l.gone(a)
				l.noErrors()
			})
		})
	}
}

// The watch breaks after the collector's own finalizer has been added. By the time of the next list the collector has taken
// it off, and another deletion has added it again: the list shows what was there before.
func TestADeletionThatIsRepeatedBehindABrokenWatchIsFinished(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t)
				a := configMap("a")
				a.Finalizers = []string{"example.com/hold"}
				l.add(a)
				l.start()
				maps := corev1.SchemeGroupVersion.WithKind("ConfigMap")
				l.React(func(r *kittest.Request) *kittest.Reaction {
					if r.User == Name && r.Verb == "patch" {
						l.FreezeWatch(maps, true)
					}
					return nil
				})
				l.deleteIn(policy, a)
				l.Settle()
				if l.Get(t, a); len(a.Finalizers) != 1 {
					t.Fatalf("finalizers are %v", a.Finalizers)
				}
				l.Unreact()
				l.deleteIn(policy, a)
				l.FreezeWatch(maps, false)
				l.Compact(maps)
				l.Pass(10 * time.Minute)
				if l.Get(t, a); len(a.Finalizers) != 1 {
					t.Errorf("finalizers are %v ten minutes later", a.Finalizers)
				}
				l.noErrors()
			})
		})
	}
}
