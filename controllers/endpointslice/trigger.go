package endpointslice

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orrery/controllers/endpointslice/layout"
	"orrery/controllers/internal/podctl"
	"orrery/kit"
)

// triggers remembers when the Service and its pods last changed, to determine which change triggered a write. If an object
// changes twice between two reconciles, the first change goes unnoticed.
type triggers struct {
	mu       sync.Mutex // guards services; each value is used by one reconcile at a time
	services map[kit.Key]*seenTimes
}

type seenTimes struct {
	service time.Time
	pods    map[string]seenPod // by name
}

type seenPod struct {
	at     time.Time // when its readiness last changed
	listed bool      // it could be an endpoint
}

func newTriggers() *triggers { return &triggers{services: map[kit.Key]*seenTimes{}} }

// observe records the current state and returns the time of the earliest change since the last call: zero if there was
// none, and the creation of the Service on the first call for it.
func (t *triggers) observe(svc *corev1.Service, pods []*corev1.Pod) time.Time {
	key := kit.KeyOf(svc)
	t.mu.Lock()
	seen, known := t.services[key]
	if !known {
		seen = &seenTimes{pods: make(map[string]seenPod, len(pods))}
		t.services[key] = seen
	}
	t.mu.Unlock()

	first := seen.update(svc.CreationTimestamp.Time, pods)
	if !known {
		return svc.CreationTimestamp.Time
	}
	return first
}

func (s *seenTimes) update(service time.Time, pods []*corev1.Pod) (first time.Time) {
	changed := func(at time.Time) {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	timed := 0
	for _, pod := range pods {
		at := readinessChange(pod)
		if at.IsZero() {
			continue
		}
		timed++
		before, ok := s.pods[pod.Name]
		now := seenPod{at: at, listed: layout.Listed(pod)}
		// A change of a pod that cannot be an endpoint triggers no reconcile, and may be noticed long after: it must not be
		// taken for the trigger of a write.
		if at.After(before.at) && (now.listed || before.listed) {
			changed(at)
		}
		if !ok || before.listed != now.listed || !at.Equal(before.at) {
			s.pods[pod.Name] = now
		}
	}
	if len(s.pods) > timed {
		s.prune(pods)
	}
	if service.After(s.service) {
		changed(service)
	}
	s.service = service
	return first
}

// prune drops pods that no longer exist or have no readiness time.
func (s *seenTimes) prune(pods []*corev1.Pod) {
	kept := make(map[string]seenPod, len(pods))
	for _, pod := range pods {
		if !readinessChange(pod).IsZero() {
			kept[pod.Name] = s.pods[pod.Name]
		}
	}
	s.pods = kept
}

// readinessChange returns when the Ready condition of a pod last changed, zero if it has none.
func readinessChange(pod *corev1.Pod) time.Time {
	if c := podctl.Condition(pod, corev1.PodReady); c != nil {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

func (t *triggers) forget(key kit.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.services, key)
}
