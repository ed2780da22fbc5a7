package garbagecollector

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"

	"orrery/controllers/garbagecollector/graph"
	"orrery/kit/cache"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

func keyed(name string) graph.Ref {
	return graph.Ref{Kind: graph.KindOf(corev1.SchemeGroupVersion.WithKind("Pod")), Namespace: "ns", Name: name, UID: types.UID(name)}
}

func TestCollectable(t *testing.T) {
	all := metav1.Verbs{"get", "list", "watch", "delete"}
	lists := []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: all}, {Name: "events", Kind: "Event", Verbs: all},
			{Name: "bindings", Kind: "Binding", Verbs: metav1.Verbs{"create"}}, {Name: "nowatch", Kind: "NoWatch", Verbs: metav1.Verbs{"list", "delete"}},
		}},
		{GroupVersion: "events.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "events", Kind: "Event", Verbs: all}}},
		{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{{Name: "events", Kind: "Event", Verbs: all}}},
		{GroupVersion: "not/a/version", APIResources: []metav1.APIResource{{Name: "x", Kind: "X", Verbs: all}}},
	}
	pods := corev1.SchemeGroupVersion.WithKind("Pod")
	own := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Event"}
	broken := schema.GroupVersion{Group: "broken.io", Version: "v1"}
	partial := &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{broken: errors.New("down")}}

	f, err := collectable(lists, partial)
	if err != nil || len(f.kinds) != 2 || !f.kinds[pods][place{"pods", true}] || f.kinds[own] == nil || f.broken[broken] == nil {
		t.Errorf("an answer with a gap: %+v, %v", f, err)
	}
	for name, c := range map[string]struct {
		lists []*metav1.APIResourceList
		err   error
	}{
		"nothing":                  {nil, nil},
		"nothing, and a gap":       {nil, partial},
		"an error":                 {nil, errors.New("down")},
		"an error after something": {lists, errors.New("down")},
	} {
		if _, err := collectable(c.lists, c.err); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestChangesOfKinds(t *testing.T) {
	kind := func(group, name string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: group, Version: "v1", Kind: name}
	}
	at := func(resources ...string) map[place]bool {
		out := map[place]bool{}
		for _, r := range resources {
			out[place{r, true}] = true
		}
		return out
	}
	k := &kinds{followed: followed{
		kind("a", "Kept"): {places: at("kept", "two")}, kind("a", "Gone"): {places: at("gone")}, kind("broken", "Unseen"): {places: at("unseen")},
		kind("a", "Moved"): {places: at("moved")}, kind("a", "Scoped"): {places: map[place]bool{{"scoped", false}: true}},
	}}
	added, removed := k.changes(found{
		kinds: places{
			kind("a", "Kept"): at("two", "kept"), kind("a", "New"): at("new"), kind("a", "Another"): at("another"),
			kind("a", "Moved"): at("movings"), kind("a", "Scoped"): at("scoped"),
		},
		broken: map[schema.GroupVersion]error{{Group: "broken", Version: "v1"}: errors.New("down")},
	})
	if !slices.Equal(added, []schema.GroupVersionKind{kind("a", "Another"), kind("a", "Moved"), kind("a", "New"), kind("a", "Scoped")}) {
		t.Errorf("added %v", added)
	}
	if !slices.Equal(removed, []schema.GroupVersionKind{kind("a", "Gone"), kind("a", "Moved"), kind("a", "Scoped")}) {
		t.Errorf("removed %v, want those that are gone or have moved: of the broken group nothing is known", removed)
	}
}

// One kind cannot be listed, as one whose conversion webhook is dead. The others do not wait for ever, neither at the
// start nor later, and it is not forgotten.
func TestAKindThatCannotBeListedHoldsUpNobody(t *testing.T) { // GC-03
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		a := configMap("a")
		l.add(a)
		w := widget("w", by(a))
		l.add(w)
		p := pod("p", by(a))
		l.add(p)
		l.Delete(t, a)
		l.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Resource.Resource == "widgets" {
				return kittest.Refuse(http.StatusInternalServerError, "conversion webhook for example.com/v1, Kind=Widget failed")
			}
			return nil
		})
		began := time.Now()
		l.start()
		l.kept(p) // in case that an owner of it is among what is not listed yet
		time.Sleep(syncPatience - time.Since(began) + time.Second)
		l.gone(p)
		b := configMap("b")
		l.add(b)
		q := pod("q", by(b))
		l.add(q)
		l.Settle()
		l.Delete(t, b)
		l.Settle()
		l.gone(q)

		l.Unreact()
		l.kept(w)
		time.Sleep(2 * time.Minute)
		l.gone(w)
		l.noErrors()
	})
}

func TestKindsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.start()
		gadgets := schema.GroupVersionKind{Group: "later.io", Version: "v1", Kind: "Gadget"}
		cc := l.Context("observer")
		if cc.Cache.Existing(gadgets, cache.MetadataOnly) != nil {
			t.Fatal("a kind is watched that the server does not have")
		}
		before := len(cc.Cache.Informers())
		l.AddKind(gadgets, "gadgets", true)
		time.Sleep(resyncWait)
		if i := cc.Cache.Existing(gadgets, cache.MetadataOnly); i == nil || !i.HasSynced() {
			t.Fatal("a new kind is not watched after a resync")
		}
		if got := len(cc.Cache.Informers()); got != before+1 {
			t.Errorf("%d informers, want one more than %d", got, before)
		}
		a := configMap("a")
		l.add(a)
		g := widget("g", by(a))
		g.SetGroupVersionKind(gadgets)
		l.add(g)
		l.Settle()
		l.Delete(t, a)
		l.Settle()
		l.gone(g)

		l.Serve(gadgets.GroupVersion().WithResource("gadgets"), false)
		time.Sleep(resyncWait)
		if cc.Cache.Existing(gadgets, cache.MetadataOnly) != nil {
			t.Error("a kind that is gone is still watched")
		}
		l.noErrors()
	})
}

// The server cannot be asked for the owner any more; that it has gone was seen.
func TestAnOwnerThatWentBeforeItsKindIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		w := widget("w")
		l.add(w)
		before, late := configMap("before", by(w)), configMap("late", by(w))
		l.add(before)
		l.start()
		l.Delete(t, w)
		l.Settle()
		l.gone(before)
		l.React(func(r *kittest.Request) *kittest.Reaction {
			if r.User == Name && r.Resource.Resource == "widgets" {
				return kittest.Refuse(http.StatusNotFound, "404 page not found")
			}
			return nil
		})
		l.Serve(widgetKind.GroupVersion().WithResource("widgets"), false)
		time.Sleep(resyncWait)
		l.add(late)
		l.Settle()
		l.gone(late)
		l.noErrors()
	})
}

// A CustomResourceDefinition was deleted and made anew with another plural, or scope, between two looks.
func TestAKindThatHasMovedIsFollowed(t *testing.T) {
	for plural, namespaced := range map[string]bool{"widgetses": true, "widgets": false} {
		t.Run(plural, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t)
				l.start()
				collects := func(w *unstructured.Unstructured) {
					t.Helper()
					owner := volume(w.GetName())
					l.add(owner)
					w.SetOwnerReferences([]metav1.OwnerReference{by(owner)})
					l.add(w)
					l.Settle()
					l.Delete(t, owner)
					l.Settle()
					l.gone(w)
				}
				collects(widget("before"))
				gvr := widgetKind.GroupVersion().WithResource
				l.Serve(gvr("widgets"), false)
				l.AddKind(widgetKind, plural, namespaced)
				l.Serve(gvr(plural), true)
				time.Sleep(resyncWait)
				moved := widget("after")
				if !namespaced {
					moved.SetNamespace("")
				}
				collects(moved)
				l.noErrors()
			})
		})
	}
}

// An aggregated API serves two resources of one kind. References do not say which is meant.
func TestAnOwnerMayBeInEitherPlaceOfItsKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.AddKind(widgetKind, "trinkets", true)
		l.start()
		user, gvr := l.Client("user"), widgetKind.GroupVersion().WithResource("trinkets")
		trinket, err := client.Create(t.Context(), user, widget("trinket"), client.Resource(gvr, true))
		if err != nil {
			t.Fatal(err)
		}
		w := widget("w")
		l.add(w)
		ofTrinket, ofWidget, ofNobody := pod("of-trinket", by(trinket)), pod("of-widget", by(w)), pod("of-nobody", by(trinket))
		ofNobody.OwnerReferences[0].UID = "another"
		l.add(ofTrinket, ofWidget, ofNobody)
		time.Sleep(time.Minute)
		l.kept(ofTrinket, ofWidget)
		l.gone(ofNobody)
		l.Delete(t, w)
		if err := client.Delete(t.Context(), user, trinket, client.Resource(gvr, true)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		l.gone(ofTrinket, ofWidget)
		l.noErrors()
	})
}

// The pods are cached for another controller with all that it needs: they are not watched a second time.
func TestAnInformerThatThereIsIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		pods := corev1.SchemeGroupVersion.WithKind("Pod")
		structured, err := l.Context("other").Cache.Informer(pods, cache.Structured)
		if err != nil {
			t.Fatal(err)
		}
		l.start()
		c := l.Context("observer").Cache
		if got := c.Existing(pods, cache.MetadataOnly); got != structured {
			t.Errorf("the metadata of pods comes from %v, want the structured informer", got)
		}
		for _, i := range c.Informers() {
			if i.GVK == pods && i != structured {
				t.Errorf("pods are watched twice: %s too", i.Form)
			}
		}
	})
}

func TestCollectionBeginsWhenAllIsListedOrHasHadItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		synced := false
		k := &kinds{followed: followed{widgetKind: {synced: func() bool { return synced }}}}
		if k.ready() {
			t.Error("ready before discovery has answered")
		}
		k.listed = true
		if k.ready() {
			t.Error("ready before the kind is listed")
		}
		time.Sleep(syncPatience - time.Nanosecond)
		if k.ready() {
			t.Error("ready before the time is up")
		}
		time.Sleep(time.Nanosecond)
		if !k.ready() {
			t.Error("not ready when the time is up")
		}

		synced = true
		k = &kinds{listed: true, followed: k.followed}
		if !k.ready() {
			t.Error("not ready when all is listed")
		}
		synced = false
		if !k.ready() {
			t.Error("not ready any more because a kind has come")
		}
	})
}

type counter int

func (c *counter) Inc() { *c++ }

func TestSyncErrorsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		f := found{kinds: places{widgetKind: {}}}
		var discoverErr, followErr error
		k := &kinds{
			discover: func() (found, error) { return f, discoverErr }, reset: func() {}, errors: &n, followed: followed{}, twins: &twins{},
			follow: func(schema.GroupVersionKind) (*monitor, error) {
				return &monitor{synced: func() bool { return false }, why: func() string { return "dead" }, stop: func() {}, forget: func() {}}, followErr
			},
		}
		for _, step := range []struct {
			name         string
			discover     error
			follow       error
			want         counter
			wantErr      bool
			wantFollowed int
		}{
			{"discovery fails", errors.New("down"), nil, 1, true, 0},
			{"the watch cannot be made", nil, errors.New("no resource"), 2, false, 0},
			{"the kind is watched", nil, nil, 2, false, 1},
			{"it is not listed a period later", nil, nil, 3, false, 1},
			{"that is said once", nil, nil, 3, false, 1},
		} {
			discoverErr, followErr = step.discover, step.follow
			_, err := k.Reconcile(t.Context(), resync{})
			if n != step.want || (err != nil) != step.wantErr || len(k.followed) != step.wantFollowed {
				t.Errorf("%s: %d errors counted, error %v, %d kinds followed", step.name, n, err, len(k.followed))
			}
		}
	})
}
