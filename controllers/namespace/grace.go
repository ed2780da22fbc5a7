package namespace

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/client"
)

var (
	podKind   = kind{gvk: corev1.SchemeGroupVersion.WithKind("Pod"), gvr: podResource, canList: true, canDeleteMany: true}
	eventKind = kind{gvk: corev1.SchemeGroupVersion.WithKind("Event"), gvr: schema.GroupVersionResource{Version: "v1", Resource: "events"}, canList: true, canDeleteMany: true}
)

// few is up to how many objects are not worth lists and deletes of their own in the grace.
const few = 20

// rememberFor is how long the first sight of a deletion is remembered. A namespace that still exists after that gets its
// grace once more, which does no harm after such a time.
const rememberFor = time.Hour

// sightings holds when the deletion of each namespace was first seen, by UID. The deletion timestamp is not good enough: it
// is in whole seconds, and by the server's clock.
type sightings struct {
	mu    sync.Mutex // guards first
	first map[types.UID]time.Time
}

// graceLeft returns the rest of the grace of a deleted namespace, in which it is not emptied.
func (s *sightings) graceLeft(uid types.UID, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, seen := s.first[uid]
	if !seen {
		for old, at := range s.first {
			if now.Sub(at) > rememberFor {
				delete(s.first, old)
			}
		}
		if s.first == nil {
			s.first = map[types.UID]time.Time{}
		}
		s.first[uid], at = now, now
	}
	return grace - now.Sub(at)
}

func (s *sightings) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.first, uid)
}

// useGrace does what can be done in the rest of a deleted namespace's grace: it deletes the pods and, once they are gone, the
// events. These are most of what many namespaces hold, nothing refers to them, and no more are let in. What an API server
// lets in that does not know of the deletion yet is deleted after the grace.
func (r *reconciler) useGrace(ctx context.Context, cached *corev1.Namespace, left time.Duration) error {
	pods := r.pods.List(cached.Name)
	if len(pods) > 0 {
		r.waiting.wait(cached.Name, time.Now().Add(left)) // for the last one to go
		if pods = undeleted(pods); len(pods) == 0 {
			return nil
		}
	}
	ns, err := client.Get[corev1.Namespace](ctx, r.live, kit.KeyOf(cached))
	switch {
	case err != nil:
		return client.IgnoreNotFound(err)
	case ns.UID != cached.UID || !terminating(ns):
		return nil
	case len(pods) == 0:
		r.deleteEvents(ctx, ns.Name, left)
		return nil
	}
	if err := r.deletePods(ctx, ns.Name, pods); err != nil {
		return fmt.Errorf("stop the pods of namespace %s: %w", ns.Name, err)
	}
	return nil
}

// undeleted returns the pods that are not being deleted yet.
func undeleted(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// deletePods deletes pods of a namespace: a few each with a request of its own, or all that there are.
func (r *reconciler) deletePods(ctx context.Context, namespace string, pods []*corev1.Pod) error {
	if len(pods) <= few {
		return deleteEach(ctx, r.live, pods)
	}
	l, err := r.list(ctx, podKind, namespace)
	if err != nil {
		return err
	}
	return r.deleteAll(ctx, podKind, namespace, l)
}

// deleteEvents deletes the events of a namespace for as long as is left of its grace. A few are left to the pass after it,
// which deletes them with one request, and which reports what cannot be deleted.
func (r *reconciler) deleteEvents(ctx context.Context, namespace string, left time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	events, err := r.list(ctx, eventKind, namespace)
	if err == nil && len(events.items) > few {
		err = r.deleteAll(ctx, eventKind, namespace, events)
	}
	if err != nil {
		klog.FromContext(ctx).V(4).Info("Not all events of a deleted namespace could be deleted in its grace", "namespace", namespace, "reason", err)
	}
}
