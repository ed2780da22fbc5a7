package deployment

import appsv1 "k8s.io/api/apps/v1"

// resize is a decision: the size that a ReplicaSet is to have.
type resize struct {
	set *appsv1.ReplicaSet
	to  int32
}

// planRolling decides the next step of a rolling update: the current ReplicaSet grows into the room below the ceiling,
// and the old ones, oldest first, give up what the floor does not need. What the current one gains counts as
// unavailable, so that the two can go together.
func planRolling(b bounds, current *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) []resize {
	var plan []resize
	to := grow(b, size(current), sum(old, size))
	if to != size(current) {
		plan = append(plan, resize{current, to})
	}
	return append(plan, shrink(b, min(reliable(current), to), old)...)
}

// grow returns the size of the current ReplicaSet beside old ones of that many pods.
func grow(b bounds, own, others int32) int32 {
	if own >= b.desired {
		return b.desired
	}
	room := max(0, b.ceiling()-own-others)
	return own + min(room, b.desired-own)
}

// shrink decides how the old ReplicaSets give way to a current one with that many available pods. Pods that are not
// available go first: they serve nobody, and a rollout that waited for them might wait for ever. Then go available
// ones, as many as there are above the floor.
func shrink(b bounds, available int32, old []*appsv1.ReplicaSet) []resize {
	// What all pods together exceed the floor by, taking every unavailable pod of the current set as still to come.
	excess := sum(old, size) + available - b.floor()
	if excess <= 0 {
		return nil
	}
	to := make([]int32, len(old))
	for i, rs := range old {
		cut := min(idle(rs), excess)
		to[i] = size(rs) - cut
		excess -= cut
	}
	spare := max(0, sum(old, reliable)+available-b.floor())
	for i := range old {
		cut := min(to[i], spare)
		to[i] -= cut
		spare -= cut
	}
	var plan []resize
	for i, rs := range old {
		if to[i] != size(rs) {
			plan = append(plan, resize{rs, to[i]})
		}
	}
	return plan
}
