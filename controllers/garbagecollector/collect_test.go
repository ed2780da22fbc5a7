package garbagecollector

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/garbagecollector/graph"
	"orrery/kit/kittest"
)

func TestWhatLosesItsLastOwnerIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		a, other := configMap("a"), configMap("other")
		l.add(a, other)
		b := widget("b", by(a))
		l.add(b)
		c, d := pod("c", by(b)), pod("d", by(b), by(other))
		l.add(c, d)
		l.start()
		l.deleteIn(metav1.DeletePropagationBackground, a)
		l.Settle()
		l.gone(b, c)
		l.kept(d, other)
		if got := l.owners(d); got != "other" {
			t.Errorf("d is owned by %q, want other", got)
		}
		l.Expect(t, "delete example.com/v1/widgets default/b", "delete v1/pods default/c", "patch v1/pods default/d")
		l.deleteIn(metav1.DeletePropagationBackground, other)
		l.Settle()
		l.gone(d)
		l.noErrors()
	})
}

func TestOwnersLostWhileNobodyLookedAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		a := configMap("a")
		l.add(a)
		b := pod("b", by(a))
		l.add(b)
		l.Delete(t, a)
		l.start()
		l.gone(b)
		l.noErrors()
	})
}

func TestAnOwnerOfTheSameNameIsAnotherOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		a := configMap("a")
		l.add(a)
		b := pod("b", by(a))
		l.add(b)
		l.Delete(t, a)
		again := configMap("a")
		l.add(again)
		c := pod("c", by(again))
		l.add(c)
		l.start()
		l.gone(b)
		l.kept(c, again)
	})
}

// TestEachWorkerDeletesSeveralAtOnce: a delete is little work, and long to wait for.
func TestEachWorkerDeletesSeveralAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took, workers, n = 10 * time.Millisecond, 20, 400
		l := newLab(t)
		a := configMap("a")
		l.add(a)
		for i := range n {
			l.add(pod(fmt.Sprint("p", i), by(a)))
		}
		l.start()
		var gauge kittest.Gauge
		l.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "delete" && r.Resource.Resource == "pods" {
				gauge.Hold(took)
			}
			return nil
		})
		l.deleteIn(metav1.DeletePropagationBackground, a)
		l.Pass(time.Second)
		if left := len(kittest.List[corev1.Pod](t, l.API, "default")); left > 0 || gauge.Most() != workers*deletesPerWorker {
			t.Errorf("%d at once, want %d; %d of %d are left", gauge.Most(), workers*deletesPerWorker, left, n)
		}
		l.noErrors()
	})
}

// One delete per dependent, and none of the reads that the watches have made already.
func TestCollectionCostsOneCallPerDependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		a := configMap("a")
		l.add(a)
		for i := range 300 {
			l.add(pod(fmt.Sprint("p", i), by(a)))
		}
		l.start()
		var reads, deletes atomic.Int32
		l.React(func(r *kittest.Request) *kittest.Reaction {
			switch {
			case r.User == Name && r.Verb == "get":
				reads.Add(1)
			case r.User == Name && r.Verb == "delete":
				deletes.Add(1)
			}
			return nil
		})
		l.Delete(t, a)
		l.Settle()
		if left := len(kittest.List[corev1.Pod](t, l.API, "default")); left != 0 || deletes.Load() != 300 || reads.Load() != 0 {
			t.Errorf("%d pods are left after %d deletes and %d reads, want 0 after 300 and 0", left, deletes.Load(), reads.Load())
		}
		l.noErrors()
	})
}

// The cache shows a pod as it was; meanwhile it has been given another owner.
func TestAnAdoptionThatTheCacheDoesNotShowIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		a, b := configMap("a"), configMap("b")
		l.add(a, b)
		p, q := pod("p", by(a)), pod("q", by(a))
		l.add(p, q)
		l.start()
		pods := corev1.SchemeGroupVersion.WithKind("Pod")
		l.FreezeWatch(pods, true)
		p.OwnerReferences = []metav1.OwnerReference{by(b)}
		l.Update(t, p)
		q.Labels = map[string]string{"changed": "yes"}
		l.Update(t, q)
		l.Delete(t, a)
		l.Settle()
		l.kept(p)
		l.gone(q)
		l.FreezeWatch(pods, false)
		l.Settle()
		l.kept(p)
		l.noErrors()
	})
}

// An object whose status is written all the time is deleted all the same.
func TestAnObjectThatChangesAllTheTimeIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		a := configMap("a")
		l.add(a)
		p := pod("p", by(a))
		l.add(p)
		l.start()
		n := 0
		l.React(func(r *kittest.Request) *kittest.Reaction {
			if r.User == Name && r.Verb == "delete" && r.Name == "p" {
				n++
				now := pod("p")
				if l.Get(t, now) {
					now.Status.Message = fmt.Sprint(n)
					l.Update(t, now)
				}
			}
			return nil
		})
		l.Delete(t, a)
		l.Settle()
		l.gone(p)
		if n != collectTries {
			t.Errorf("%d deletes, want %d: with the version of the cache, with that of the server, with the UID alone", n, collectTries)
		}
		l.noErrors()
	})
}

func TestANamespacedChildIsCollectedAndAClusterScopedOneKept(t *testing.T) { // GC-02
	for _, order := range []string{"cluster-scoped first", "namespaced first"} {
		t.Run(order, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t)
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "parent", Namespace: "default"}}
				l.add(secret)
				l.start()
				l.Delete(t, secret)
				ref := metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: "parent", UID: secret.UID}
				bad, good := volume("bad", ref), pod("good", ref)
				if order == "namespaced first" {
					l.add(good, bad)
				} else {
					l.add(bad, good)
				}
				l.Settle()
				l.gone(good)
				l.kept(bad)
				l.noErrors()
			})
		})
	}
}

func TestAnOwnerInAnotherNamespaceIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
		a := configMap("a")
		l.add(a)
		p, q := pod("p", by(a)), pod("q", by(a))
		p.Namespace = "elsewhere"
		l.start()
		l.add(p, q)
		l.Settle()
		l.gone(p)
		l.kept(a, q)
		want := fmt.Sprintf(`Warning OwnerRefInvalidNamespace Pod elsewhere/p: ownerRef [v1/ConfigMap, namespace: elsewhere, name: a, uid: %s] does not exist in namespace "elsewhere"`, a.UID)
		if e := l.Events(); len(e) != 1 || e[0].String() != want {
			t.Errorf("events %v, want %s", e, want)
		}
		l.noErrors()
	})
}

// A 404 that does not come from the kind's own storage proves nothing about the owner.
func TestAnAnswerThatIsNotAboutTheObjectProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		w := widget("w")
		l.add(w)
		p := pod("p", by(w))
		l.add(p)
		l.React(func(r *kittest.Request) *kittest.Reaction {
			switch {
			case r.Resource.Resource == "widgets" && (r.Verb == "list" || r.Verb == "watch"):
				return kittest.Refuse(http.StatusInternalServerError, "no list")
			case r.Resource.Resource == "widgets" && r.Verb == "get" && r.User == Name:
				return kittest.Refuse(http.StatusNotFound, "404 page not found")
			}
			return nil
		})
		l.start()
		time.Sleep(5 * time.Minute)
		l.kept(p)
		l.Unreact()
		l.Delete(t, w)
		time.Sleep(20 * time.Minute)
		l.gone(p)
	})
}

// An owner that nobody watches is asked for until it is gone.
func TestAnOwnerOfAKindThatIsNotWatchedIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		w := widget("w")
		l.add(w)
		p := pod("p", by(w))
		l.add(p)
		l.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Resource.Resource == "widgets" && (r.Verb == "list" || r.Verb == "watch") {
				return kittest.Refuse(http.StatusMethodNotAllowed, "no list")
			}
			return nil
		})
		l.start()
		time.Sleep(10 * time.Minute)
		l.kept(p)
		l.Delete(t, w)
		time.Sleep(20 * time.Minute)
		l.gone(p)
		l.noErrors()
	})
}

func TestDependentsDeletedByHandAreNoErrors(t *testing.T) { // GC-08
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		a := configMap("a")
		l.add(a)
		pods := make([]*corev1.Pod, 1000)
		for i := range pods {
			pods[i] = pod(fmt.Sprint("p", i), by(a))
			l.add(pods[i])
		}
		l.start()
		l.DelayWatch(corev1.SchemeGroupVersion.WithKind("Pod"), 50*time.Millisecond)
		l.React(func(r *kittest.Request) *kittest.Reaction {
			if r.User == Name && r.Verb == "delete" && strings.HasSuffix(r.Name, "1") {
				if p := pod(r.Name); l.Get(t, p) {
					l.Remove(t, p)
				}
			}
			return nil
		})
		l.Delete(t, a)
		l.Settle()
		if left := len(kittest.List[corev1.Pod](t, l.API, "default")); left != 0 {
			t.Errorf("%d pods are left", left)
		}
		l.noErrors()
	})
}

func TestLiveOwnersLoseNothingThroughFailovers(t *testing.T) { // GC-06
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		var owners []*corev1.ConfigMap
		var pods []*corev1.Pod
		for i := range 20 {
			o := configMap(fmt.Sprint("o", i))
			o.Finalizers = []string{metav1.FinalizerDeleteDependents}
			l.add(o)
			p := pod(fmt.Sprint("p", i), blocking(by(o)))
			l.add(p)
			owners, pods = append(owners, o), append(pods, p)
		}
		configMaps := corev1.SchemeGroupVersion.WithKind("ConfigMap")
		var slow atomic.Bool
		l.React(func(r *kittest.Request) *kittest.Reaction {
			if slow.Load() && r.Resource.Resource == "configmaps" && r.Verb == "list" {
				time.Sleep(40 * time.Second)
			}
			return nil
		})
		slow.Store(true)
		for range 3 {
			l.start()
			l.DelayWatch(configMaps, 10*time.Second)
			l.Compact(configMaps)
			time.Sleep(3 * time.Minute)
			l.stop()
		}
		for i := range owners {
			l.kept(owners[i], pods[i])
		}
		l.Expect(t)
		l.noErrors()
	})
}

// A list that is older than what was watched may lack an object that exists. A deletion that was watched is certain.
func TestAnObjectThatAListLacksIsAskedForFirst(t *testing.T) {
	kind := graph.KindOf(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	var checked []string
	r := &reconciler{graph: graph.New(), known: newKnowledge(), check: func(ref graph.Ref, _ time.Duration) { checked = append(checked, ref.Name) }}
	a := configMap("a")
	a.UID = "a"
	p, again := configMap("p", by(a)), configMap("a")
	p.UID, again.UID = "p", "again"
	see := r.observer(kind)
	see(nil, a, true)
	see(nil, p, true)
	for _, step := range []struct {
		name   string
		change func()
		want   string
		gone   bool
	}{
		{"a list lacks it", func() { see(a, nil, true) }, "a", false},
		{"it is there all the same", func() { see(nil, a, false) }, "", false},
		{"a list has another one of its name", func() { see(a, again, false) }, "a", false},
		{"it is there once more", func() { see(nil, a, false) }, "", false},
		{"its deletion is watched", func() { see(a, nil, false) }, "p", true},
	} {
		checked = nil
		step.change()
		if got := strings.Join(checked, " "); got != step.want || r.known.goneSince(graph.RefOf(kind, a)).IsZero() == step.gone {
			t.Errorf("%s: checked %q, want %q; known to be gone: want %t", step.name, got, step.want, step.gone)
		}
	}
}

func TestDeletionsMissedDuringAnOutageAreMadeGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		a, b := configMap("a"), configMap("b")
		l.add(a, b)
		p, q := pod("p", by(a)), pod("q", by(b))
		l.add(p, q)
		l.start()
		configMaps := corev1.SchemeGroupVersion.WithKind("ConfigMap")
		l.FreezeWatch(configMaps, true)
		l.Delete(t, a)
		l.Delete(t, b)
		again := configMap("b")
		l.add(again)
		l.FreezeWatch(configMaps, false)
		l.Compact(configMaps)
		time.Sleep(time.Minute)
		l.gone(p, q)
		l.kept(again)
		l.noErrors()
	})
}
