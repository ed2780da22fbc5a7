package deployment

import appsv1 "k8s.io/api/apps/v1"

// resize is the decision to give a ReplicaSet a size.
type resize struct {
	set *appsv1.ReplicaSet
	to  int32
}

// planRolling decides the next step of a rolling update: the current ReplicaSet grows as far as the ceiling allows, and
// the old ones, oldest first, shrink as far as the floor allows. Both can happen in one step because the pods that the
// current one gains count as unavailable.
func planRolling(b bounds, current *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) []resize {
	var plan []resize
	to := grow(b, size(current), sum(old, size))
	if to != size(current) {
		plan = append(plan, resize{current, to})
	}
	return append(plan, shrink(b, min(reliable(current), to), old)...)
}

// grow returns the new size of the current ReplicaSet, given its own size and the total size of the others.
func grow(b bounds, own, others int32) int32 {
	if own >= b.desired {
		return b.desired
	}
	room := max(0, b.ceiling()-own-others)
	return own + min(room, b.desired-own)
}

// shrink decides how far the old ReplicaSets shrink, given the number of available pods of the current one. Unavailable
// pods go first: they serve no traffic, and a rollout that waited for them might wait for ever. Available pods follow, as
// far as the floor allows.
func shrink(b bounds, available int32, old []*appsv1.ReplicaSet) []resize {
	// How far the total exceeds the floor, not counting unavailable pods of the current ReplicaSet.
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
