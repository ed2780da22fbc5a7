package garbagecollector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"

	"orrery/kit"
)

const (
	// resyncPeriod is the time between two discoveries of the kinds that the server has.
	resyncPeriod = 30 * time.Second
	// syncPatience bounds how long the first collection waits for all kinds to be listed.
	syncPatience = 30 * time.Second
	// hopeless is the number of resyncs after which a kind that has not been listed counts as one that cannot be listed.
	hopeless = 2
)

// resync is the only key of the loop that follows the kinds.
type resync struct{}

// String names the key on the debug page.
func (resync) String() string { return "all kinds" }

// found is the result of a discovery: the kinds that can be collected and those that can be read, with their places, and
// the group versions for which the server did not answer.
type found struct {
	kinds    places
	readable places
	broken   map[schema.GroupVersion]error
}

// ignored reports whether objects of a resource are not collected. Events expire by themselves.
func ignored(r schema.GroupResource) bool {
	return r.Resource == "events" && (r.Group == "" || r.Group == "events.k8s.io")
}

// collectable picks the kinds that can be deleted, listed and watched. A discovery that fails for some groups is no error.
func collectable(lists []*metav1.APIResourceList, err error) (found, error) {
	f := found{kinds: places{}, readable: places{}}
	f.broken, _ = discovery.GroupDiscoveryFailedErrorGroups(err)
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range l.APIResources {
			gvk, at := gv.WithKind(r.Kind), place{r.Name, r.Namespaced}
			if slices.Contains(r.Verbs, "get") {
				f.readable.add(gvk, at)
			}
			if !ignored(gv.WithResource(r.Name).GroupResource()) && collectableVerbs(r.Verbs) {
				f.kinds.add(gvk, at)
			}
		}
	}
	switch {
	case len(f.kinds) == 0 && err != nil:
		return f, fmt.Errorf("discover the kinds of the server: %w", err)
	case len(f.kinds) == 0:
		return f, errors.New("discover the kinds of the server: it has none that could be collected")
	case err != nil && f.broken == nil:
		return f, fmt.Errorf("discover the kinds of the server: %w", err)
	}
	return f, nil
}

// hasOtherVersion reports whether the server has a kind in another version as well.
func (f found) hasOtherVersion(gvk schema.GroupVersionKind) bool {
	for other := range f.kinds {
		if other != gvk && other.GroupKind() == gvk.GroupKind() {
			return true
		}
	}
	return false
}

func collectableVerbs(have []string) bool {
	for _, verb := range []string{"delete", "list", "watch"} {
		if !slices.Contains(have, verb) {
			return false
		}
	}
	return true
}

// monitor is the watch of one kind.
type monitor struct {
	synced func() bool   // the graph has all objects of the first list
	listed func() bool   // the first list has been received
	why    func() string // why it is not synced; empty if that is not known
	stop   func()
	forget func() // takes the objects out of the graph
	rounds int    // resyncs that have found it not synced
	places map[place]bool
}

type followed map[schema.GroupVersionKind]*monitor

// kinds keeps one monitor per kind that the server has.
type kinds struct {
	discover func() (found, error)
	follow   func(schema.GroupVersionKind) (*monitor, error)
	reset    func() // makes the mapping of kinds to resources be read again
	twins    *twins
	errors   interface{ Inc() }
	steady   atomic.Bool // ready has once been true

	mu       sync.Mutex // guards the fields below; the loop alone changes followed, and reads it without the lock
	followed followed
	since    time.Time // when the wait for the first sync began
	listed   bool      // discovery has answered
}

// ready reports whether collection may begin: all kinds are listed, or the rest have had their time. It stays true.
func (k *kinds) ready() bool {
	if k.steady.Load() {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.since.IsZero() {
		k.since = now
	}
	if now.Sub(k.since) < syncPatience {
		if !k.listed {
			return false
		}
		for _, m := range k.followed {
			if !m.synced() {
				return false
			}
		}
	}
	k.steady.Store(true)
	return true
}

// whole reports whether the graph has all dependents, as far as can be known. Until then no owner that waits for its
// dependents is released: a dependent that comes into the graph later would be collected. A list that has been received is
// waited for until the graph has all of it; one that has not, until the kind is hopeless, so that a kind that cannot be
// listed does not block the others for ever.
func (k *kinds) whole() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range k.followed {
		if !m.synced() && (m.rounds < hopeless || m.listed()) {
			return false
		}
	}
	return true
}

// Reconcile brings the monitors in line with the kinds that the server has.
func (k *kinds) Reconcile(ctx context.Context, _ resync) (kit.Result, error) {
	f, err := k.discover()
	if err != nil {
		k.errors.Inc()
		return kit.Done, err
	}
	k.twins.set(f.readable)
	log := klog.FromContext(ctx)
	if len(f.broken) > 0 {
		log.V(2).Info("The server does not answer for some groups; what is watched of them stays", "groups", groupNames(f.broken))
	}
	added, removed := k.changes(f)
	if len(added)+len(removed) > 0 {
		log.V(2).Info("Kinds have changed", "added", kindNames(added), "removed", kindNames(removed))
		k.reset()
	}
	for _, gvk := range removed {
		k.drop(gvk, f.hasOtherVersion(gvk))
	}
	for _, gvk := range added {
		if err := k.add(gvk, f.kinds[gvk]); err != nil {
			k.errors.Inc()
			log.Info("A kind cannot be watched; trying again with the next look at the kinds", "kind", gvk, "reason", err)
		}
	}
	k.mu.Lock()
	k.listed = true
	k.mu.Unlock()
	k.report(log)
	return kit.Done, nil
}

// changes compares what the server has with what is watched. A kind that has moved is removed and added. Nothing is
// concluded about groups that the server did not answer for.
func (k *kinds) changes(f found) (added, removed []schema.GroupVersionKind) {
	for gvk, places := range f.kinds {
		if m := k.followed[gvk]; m == nil || !maps.Equal(m.places, places) {
			added = append(added, gvk)
		}
	}
	for gvk, m := range k.followed {
		places, served := f.kinds[gvk]
		if served && !maps.Equal(m.places, places) || !served && f.broken[gvk.GroupVersion()] == nil {
			removed = append(removed, gvk)
		}
	}
	byName := func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) }
	slices.SortFunc(added, byName)
	slices.SortFunc(removed, byName)
	return added, removed
}

func (k *kinds) add(gvk schema.GroupVersionKind, places map[place]bool) error {
	m, err := k.follow(gvk)
	if err != nil {
		return err
	}
	m.places = places
	k.mu.Lock()
	defer k.mu.Unlock()
	k.followed[gvk] = m
	return nil
}

// drop ends the watch of a kind. Unless the watch of another version goes on showing its objects, they are forgotten: an
// owner would wait for them for ever.
func (k *kinds) drop(gvk schema.GroupVersionKind, otherVersion bool) {
	k.followed[gvk].stop()
	if !otherVersion {
		k.followed[gvk].forget()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.followed, gvk)
}

// report says which kinds have not been listed within a period, once each. Their informers go on trying.
func (k *kinds) report(log klog.Logger) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for gvk, m := range k.followed {
		switch {
		case m.synced():
			m.rounds = 0
			continue
		case m.rounds == hopeless-1:
			k.errors.Inc()
			log.Info("A kind cannot be listed; its objects are not collected until it can", "kind", gvk, "reason", m.why())
		}
		m.rounds++
	}
}

func kindNames(gvks []schema.GroupVersionKind) []string {
	out := make([]string, len(gvks))
	for i, gvk := range gvks {
		out[i] = gvk.Kind + "." + gvk.GroupVersion().String()
	}
	return out
}

func groupNames(broken map[schema.GroupVersion]error) []string {
	var out []string
	for gv := range broken {
		out = append(out, gv.String())
	}
	slices.Sort(out)
	return out
}
