package statefulset

import (
	"slices"

	"orrery/controllers/internal/podctl"
)

// planUpdate returns the outdated pods that are to go, the highest first, within what may be unavailable.
func (s *state) planUpdate() []member {
	behind := s.behind()
	switch {
	case !s.rules.maxUnavailable:
		return s.oneByOne()
	case s.ordered():
		behind = slices.DeleteFunc(behind, func(m member) bool { return going(m.pod) })
		return behind[:min(len(behind), max(0, s.maxUnavailable-s.unavailable))]
	}
	// Pods that are not available are deleted whatever the limit is: that costs no availability, and a limit that is used up
	// by working pods with higher ordinals would never reach broken ones with lower ordinals.
	var out []member
	for _, m := range behind {
		if !s.available(m.pod) && !going(m.pod) && !podctl.Finished(m.pod) { // what has finished goes anyway
			out = append(out, m)
		}
	}
	left := s.maxUnavailable - s.unavailable
	for _, m := range behind {
		if left > 0 && s.serving(m.pod) {
			out = append(out, m)
			left--
		}
	}
	return out
}

// behind returns the outdated pods that the partition does not hold back, the highest first.
func (s *state) behind() (out []member) {
	for _, m := range slices.Backward(s.replicas) {
		if m.ordinal >= s.first+s.partition() && s.outdated(m.pod) {
			out = append(out, m)
		}
	}
	return out
}

// oneByOne returns the highest outdated pod, unless a pod above it is missing or not available yet.
func (s *state) oneByOne() []member {
	expected := s.end - 1
	for _, m := range slices.Backward(s.replicas) {
		switch {
		case m.ordinal < s.first+s.partition(), m.ordinal != expected:
			return nil
		case s.outdated(m.pod) && !going(m.pod):
			return []member{m}
		case !s.serving(m.pod):
			return nil
		}
		expected--
	}
	return nil
}

// planRecreation plans the deletion of all outdated pods at once. wait is true until the last of them is gone.
func (s *state) planRecreation(p *plan) (wait bool) {
	for _, m := range slices.Concat(s.replicas, s.condemned) {
		if s.outdated(m.pod) {
			wait = true
			if !going(m.pod) {
				p.recreate = append(p.recreate, m)
			}
		}
	}
	switch {
	case wait:
		p.progress = "Deleting old revision pods"
	case s.current.Name != s.update.Name:
		p.progress = "Waiting for new-revision pods to be created"
	}
	return wait
}
