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

// rememberFor is how long the first sight of a deletion is remembered. A namespace that is still there after that is
// given its grace once more, which keeps it no longer than it has been kept already.
const rememberFor = time.Hour

// sightings holds when each namespace was first seen to be deleted, by UID. The deletion's own time is no measure: it is
// in whole seconds, and by the clock of the server.
type sightings struct {
	mu    sync.Mutex // guards first
	first map[types.UID]time.Time
}

// graceLeft returns how long a deleted namespace is still to be kept, whatever is in it.
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

// stopPods has the pods of a namespace stop that has only just been deleted. They go first in any case, and need the most
// time; who makes one all the same, at an API server that does not know of the deletion yet, has it deleted after the grace.
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
