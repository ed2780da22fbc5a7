package deployment

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
)

// isScaled reports whether spec.replicas has changed since the sizes of the ReplicaSets were last decided.
func isScaled(b bounds, sets []*appsv1.ReplicaSet) bool {
	return slices.ContainsFunc(sets, func(rs *appsv1.ReplicaSet) bool { return isStale(b, rs) })
}

// isStale reports whether an active ReplicaSet notes another number of desired pods than the Deployment has now.
func isStale(b bounds, rs *appsv1.ReplicaSet) bool {
	sizedFor, ok := noted(rs, desiredAnnotation)
	return size(rs) > 0 && ok && sizedFor != b.desired
}

// planScale decides the sizes after a change of spec.replicas in the middle of a rollout or of a pause. A ReplicaSet
// that stays as it is but is stale stands in the plan too, to have its notes renewed: otherwise the next look would
// find the change again, and the rollout would wait for ever. recorded is the size in the Deployment's status.
func planScale(b bounds, isRolling bool, current *appsv1.ReplicaSet, old []*appsv1.ReplicaSet, recorded int32) []resize {
	all := old
	if current != nil {
		all = append(slices.Clone(old), current)
	}
	if len(all) == 0 {
		return nil
	}
	running := active(all)
	switch {
	case len(running) == 0 && current == nil:
		return whole(b, old[len(old)-1])
	case len(running) == 0:
		return whole(b, current)
	case len(running) == 1:
		return whole(b, running[0])
	case isSaturated(b, current):
		return planRecreate(old)
	case isRolling:
		return proportions(b, running, recorded)
	}
	var plan []resize // a Recreate that took over from a rolling update: its next step empties the old ones
	for _, rs := range running {
		if isStale(b, rs) {
			plan = append(plan, resize{rs, size(rs)})
		}
	}
	return plan
}

// whole gives all desired pods to one ReplicaSet.
func whole(b bounds, rs *appsv1.ReplicaSet) []resize {
	if size(rs) == b.desired && !isStale(b, rs) {
		return nil
	}
	return []resize{{rs, b.desired}}
}

// planRecreate decides the first step of a Recreate: the old ReplicaSets are emptied.
func planRecreate(old []*appsv1.ReplicaSet) []resize {
	var plan []resize
	for _, rs := range active(old) {
		plan = append(plan, resize{rs, 0})
	}
	return plan
}

// isSaturated reports whether the current ReplicaSet alone does the Deployment's work.
func isSaturated(b bounds, rs *appsv1.ReplicaSet) bool {
	sizedFor, ok := noted(rs, desiredAnnotation)
	return ok && sizedFor == b.desired && size(rs) == b.desired && rs.Status.AvailableReplicas == b.desired
}

// proportions spreads what there is to add or remove over ReplicaSets in proportion to their sizes, so that a rollout
// that may be a bad one gains no share. The largest take part first and the very first gets the remainder; of equals
// the newer one is preferred.
func proportions(b bounds, sets []*appsv1.ReplicaSet, recorded int32) []resize {
	var limit int32
	if b.desired > 0 {
		limit = b.ceiling()
	}
	change := limit - sum(sets, size)
	slices.SortFunc(sets, func(x, y *appsv1.ReplicaSet) int {
		age := byAge(x, y)
		if change > 0 {
			age = -age
		}
		return cmp.Or(cmp.Compare(size(y), size(x)), age)
	})
	plan := make([]resize, len(sets))
	left := change
	for i, rs := range sets {
		part := fraction(b, rs, recorded)
		if change > 0 {
			part = min(part, left)
		} else {
			part = max(part, left)
		}
		if left == 0 {
			part = 0
		}
		plan[i] = resize{rs, size(rs) + part}
		left -= part
	}
	plan[0].to = max(0, plan[0].to+left)
	return plan
}

// fraction is the change that keeps a ReplicaSet's share of the ceiling what it was at the last sizing. The size then
// is in an annotation; where somebody removed it, the size recorded in status has to do.
func fraction(b bounds, rs *appsv1.ReplicaSet, recorded int32) int32 {
	if b.desired == 0 {
		return -size(rs)
	}
	before, ok := noted(rs, maxAnnotation)
	if !ok || before == 0 {
		before = recorded
	}
	if before == 0 {
		return 0
	}
	share := float64(size(rs)) * float64(b.ceiling()) / float64(before)
	return int32(min(math.Floor(share+0.5), math.MaxInt32)) - size(rs)
}

// noted reads a number of pods that was noted on a ReplicaSet; ok is false where there is none that makes sense.
func noted(rs *appsv1.ReplicaSet, annotation string) (n int32, ok bool) {
	if rs == nil {
		return 0, false
	}
	v, err := strconv.ParseInt(rs.Annotations[annotation], 10, 32)
	return int32(v), err == nil && v >= 0
}
