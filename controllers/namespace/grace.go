package namespace

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/kit"
	"orrery/kit/client"
)

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

// stopPods deletes the pods of a namespace that has only just been deleted. They are the first to go in any case, and take
// the most time. Pods that an API server which does not know of the deletion yet still lets in are deleted after the grace.
func (r *reconciler) stopPods(ctx context.Context, cached *corev1.Namespace) error {
	running := undeleted(r.pods.List(cached.Name))
	if len(running) == 0 {
		return nil
	}
	ns, err := client.Get[corev1.Namespace](ctx, r.live, kit.KeyOf(cached))
	switch {
	case err != nil:
		return client.IgnoreNotFound(err)
	case ns.UID != cached.UID || !terminating(ns):
		return nil
	}
	if err := deleteEach(ctx, r.live, running); err != nil {
		return fmt.Errorf("stop the pods of namespace %s: %w", ns.Name, err)
	}
	return nil
}
