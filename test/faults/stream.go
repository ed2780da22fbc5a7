package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"orrery/test/faults/checker"
)

// lag is how long changes are buffered, so that changes of different kinds, which arrive on different connections, can be
// sorted into the order in which they were stored.
const lag = 2 * time.Second

// source is one kind of objects.
type source struct {
	name  string
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// sources returns the kinds that the rules need.
func sources(c kubernetes.Interface, custom metadata.Interface) []source {
	const ns = metav1.NamespaceAll
	return []source{
		of("namespaces", c.CoreV1().Namespaces().List, c.CoreV1().Namespaces().Watch),
		of("configmaps", c.CoreV1().ConfigMaps(ns).List, c.CoreV1().ConfigMaps(ns).Watch),
		of(widgets.Resource, custom.Resource(widgets).List, custom.Resource(widgets).Watch),
		of("services", c.CoreV1().Services(ns).List, c.CoreV1().Services(ns).Watch),
		of("endpointslices", c.DiscoveryV1().EndpointSlices(ns).List, c.DiscoveryV1().EndpointSlices(ns).Watch),
		of("nodes", c.CoreV1().Nodes().List, c.CoreV1().Nodes().Watch),
		of("leases", c.CoordinationV1().Leases(corev1.NamespaceNodeLease).List, c.CoordinationV1().Leases(corev1.NamespaceNodeLease).Watch),
		of("pods", c.CoreV1().Pods(ns).List, c.CoreV1().Pods(ns).Watch),
		of("replicasets", c.AppsV1().ReplicaSets(ns).List, c.AppsV1().ReplicaSets(ns).Watch),
		of("deployments", c.AppsV1().Deployments(ns).List, c.AppsV1().Deployments(ns).Watch),
		of("statefulsets", c.AppsV1().StatefulSets(ns).List, c.AppsV1().StatefulSets(ns).Watch),
		of("daemonsets", c.AppsV1().DaemonSets(ns).List, c.AppsV1().DaemonSets(ns).Watch),
		of("jobs", c.BatchV1().Jobs(ns).List, c.BatchV1().Jobs(ns).Watch),
		of("cronjobs", c.BatchV1().CronJobs(ns).List, c.BatchV1().CronJobs(ns).Watch),
		of("poddisruptionbudgets", c.PolicyV1().PodDisruptionBudgets(ns).List, c.PolicyV1().PodDisruptionBudgets(ns).Watch),
	}
}

func of[L runtime.Object](name string, list func(context.Context, metav1.ListOptions) (L, error), watch func(context.Context, metav1.ListOptions) (watch.Interface, error)) source {
	return source{name, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) }, watch}
}

// feed collects the changes of all sources.
type feed struct {
	mu      sync.Mutex // guards the fields below
	pending []change
	down    map[string]bool // sources without a connection
	quiet   time.Time       // nothing is given out before this
	lists   int             // how often a source had to list again, so that changes were missed
}

type change struct {
	checker.Event
	version int64
}

// follow watches all sources until ctx ends.
func follow(ctx context.Context, all []source) *feed {
	f := &feed{down: map[string]bool{}}
	for _, s := range all {
		f.down[s.name] = true
	}
	for _, s := range all {
		go f.read(ctx, s)
	}
	return f
}

func (f *feed) read(ctx context.Context, s source) {
	known, version := map[types.UID]metav1.Object{}, ""
	for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		if version == "" {
			var err error
			if version, err = f.relist(ctx, s, known); err != nil {
				continue
			}
		}
		w, err := s.watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
		if err != nil {
			if meta.IsNoMatchError(err) {
				return
			}
			continue
		}
		f.connected(s.name, true)
		version = f.drain(w, known, version)
		w.Stop()
		f.connected(s.name, false)
	}
}

// relist lists the objects and queues them, and the removal of those that no longer exist.
func (f *feed) relist(ctx context.Context, s source, known map[types.UID]metav1.Object) (version string, err error) {
	list, err := s.list(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return "", err
	}
	left := map[types.UID]bool{}
	err = meta.EachListItem(list, func(o runtime.Object) error {
		if obj, ok := o.(metav1.Object); ok {
			left[obj.GetUID()] = true
			known[obj.GetUID()] = obj
			f.add(obj, false, true, obj.GetResourceVersion())
		}
		return nil
	})
	for uid, o := range known {
		if !left[uid] {
			delete(known, uid)
			f.add(o, true, true, m.GetResourceVersion())
		}
	}
	f.mu.Lock()
	f.lists++
	f.mu.Unlock()
	return m.GetResourceVersion(), err
}

// drain queues the events of a watch until it ends. It returns the resourceVersion from which to continue, or "" to list
// again.
func (f *feed) drain(w watch.Interface, known map[types.UID]metav1.Object, version string) string {
	for e := range w.ResultChan() {
		o, ok := e.Object.(metav1.Object)
		if e.Type == watch.Error || !ok {
			return ""
		}
		version = o.GetResourceVersion()
		switch e.Type {
		case watch.Bookmark:
			continue
		case watch.Deleted:
			delete(known, o.GetUID())
		default:
			known[o.GetUID()] = o
		}
		f.add(o, e.Type == watch.Deleted, false, version)
	}
	return version
}

func (f *feed) add(o metav1.Object, gone, listed bool, version string) {
	n, _ := strconv.ParseInt(version, 10, 64)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = append(f.pending, change{checker.Event{At: time.Now(), Gone: gone, Listed: listed, Object: o}, n})
}

func (f *feed) connected(name string, yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down[name] = !yes
	f.quiet = time.Now().Add(lag) // for what the others are still to show
}

// take returns the changes that are old enough, in the order in which they were stored.
func (f *feed) take(now time.Time) []checker.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, down := range f.down {
		if down {
			return nil
		}
	}
	if now.Before(f.quiet) {
		return nil
	}
	slices.SortStableFunc(f.pending, func(a, b change) int { return cmp.Compare(a.version, b.version) })
	n := 0
	for i, c := range f.pending {
		if now.Sub(c.At) < lag {
			break
		}
		n = i + 1
	}
	var out []checker.Event
	for _, c := range f.pending[:n] {
		out = append(out, c.Event)
	}
	f.pending = slices.Delete(f.pending, 0, n)
	return out
}
