package daemonset

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// bounds limit a rolling update.
type bounds struct {
	unavailable int // nodes that may be without an available pod
	surge       int // nodes that may have a second pod; if 0, old pods are deleted before new ones are created
}

// boundsOf resolves the bounds of a rolling update. If there are desired nodes, at least one bound is above 0, so that an
// update can always proceed.
func boundsOf(set *appsv1.DaemonSet, desired int) (b bounds, err error) {
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		if b.unavailable, err = intstr.GetScaledValueFromIntOrPercent(r.MaxUnavailable, desired, true); err != nil {
			return b, fmt.Errorf("invalid value for MaxUnavailable: %w", err)
		}
	}
	if b.surge, err = surgeOf(set, desired); err != nil {
		return b, fmt.Errorf("invalid value for MaxSurge: %w", err)
	}
	if desired > 0 && b.unavailable == 0 && b.surge == 0 {
		b.unavailable = 1
	}
	return b, nil
}

// roll plans the next step of a rolling update to the current template. It must be called only when manage has nothing to
// delete.
func roll(v *view) (plan, error) {
	b, err := boundsOf(v.set, v.desired)
	if err != nil {
		return plan{}, err
	}
	if b.surge > 0 {
		return surge(v, b.surge), nil
	}
	return replace(v, b.unavailable), nil
}

// replace deletes old pods, for manage to create new ones in their place. Unavailable pods are deleted at once, as that
// costs no availability; of the others, so many that no more than limit nodes are without an available pod.
func replace(v *view, limit int) plan {
	var p, candidates plan
	without := 0
	for _, s := range v.nodes {
		fresh, old, ok := v.pairOn(s)
		switch {
		case !ok || (fresh == nil) == (old == nil):
			without++ // manage has yet to create a pod here, or to delete surplus ones
		case fresh != nil:
			if !v.available(fresh) {
				without++
			}
		case !v.available(old):
			p.drop(s, old)
			without++
		default:
			candidates.drop(s, old)
		}
	}
	candidates.sort()
	p.remove = append(p.remove, candidates.remove[:clamp(limit-without, len(candidates.remove))]...)
	return p
}

// surge creates new pods beside old ones, and deletes an old pod once the new one is available. If the old pod is
// unavailable the new one is created at once; for the others, at most limit nodes have two pods at a time.
func surge(v *view, limit int) plan {
	var p, candidates, leaving plan
	surging, available := 0, 0
	for _, s := range v.nodes {
		if s.gone {
			continue // the pod garbage collector deletes its pods
		}
		fresh, old, ok := v.pairOn(s)
		if !ok {
			surging++ // manage has yet to delete surplus pods here
			continue
		}
		serving := old
		if old == nil {
			serving = fresh
		}
		up := serving != nil && v.available(serving)
		if up {
			available++
		}
		switch {
		case old == nil:
		case fresh != nil && !v.available(fresh):
			surging++
		case fresh != nil, !s.run && !up:
			p.drop(s, old)
		case !s.run:
			leaving.drop(s, old)
		case !up:
			p.create = append(p.create, s.node)
		default:
			candidates.create = append(candidates.create, s.node)
		}
	}
	candidates.sort()
	leaving.sort()
	p.create = append(p.create, candidates.create[:clamp(limit-surging, len(candidates.create))]...)
	// A surge promises no loss of availability. If the update changes which nodes are eligible, pods on the nodes that no
	// longer are get deleted only as pods on the new ones become available.
	p.remove = append(p.remove, leaving.remove[:clamp(available-v.desired, len(leaving.remove))]...)
	return p
}

func clamp(n, most int) int { return max(0, min(n, most)) }

// pairOn returns the pod of the current template on a node and the one of an older template; either may be nil. ok is false
// if there are several of a sort. Pods that are being deleted do not count.
func (v *view) pairOn(s nodeState) (fresh, old *corev1.Pod, ok bool) {
	for _, pod := range s.pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		at := &old
		if v.current.matches(pod) {
			at = &fresh
		}
		if *at != nil {
			return nil, nil, false
		}
		*at = pod
	}
	return fresh, old, true
}
