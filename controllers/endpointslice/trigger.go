package endpointslice

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orrery/controllers/endpointslice/layout"
	"orrery/controllers/internal/podctl"
	"orrery/kit"
)

// triggers remembers when what a Service's slices depend on last changed, to tell which change a write follows. A
// change that is overtaken by another of the same object before it is looked at is not seen.
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
	listed bool      // it stood in the slices, or could have
}

func newTriggers() *triggers { return &triggers{services: map[kit.Key]*seenTimes{}} }

// observe takes in the present state and returns the time of the earliest change since the last call: zero if there
// was none, and the creation of the Service if it was not known.
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
		// What becomes of a pod outside the slices calls for no look, and may be seen long after: it is no reason for a write.
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

// prune drops pods that are gone or have no time any more.
func (s *seenTimes) prune(pods []*corev1.Pod) {
	kept := make(map[string]seenPod, len(pods))
	for _, pod := range pods {
		if !readinessChange(pod).IsZero() {
			kept[pod.Name] = s.pods[pod.Name]
		}
	}
	s.pods = kept
}

// readinessChange returns when a pod became ready or ceased to be, zero if it does not say.
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
