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

// isStale reports whether an active ReplicaSet was sized for a different number of replicas than the Deployment has now.
func isStale(b bounds, rs *appsv1.ReplicaSet) bool {
	sizedFor, ok := noted(rs, desiredAnnotation)
	return size(rs) > 0 && ok && sizedFor != b.desired
}

// planScale decides the sizes after a change of spec.replicas during a rollout or a pause. The plan includes a stale
// ReplicaSet even if its size does not change, so that its annotations are updated: otherwise the next reconcile would
// see the same change again, and the rollout would never continue. recorded is status.replicas of the Deployment.
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
	var plan []resize // the strategy was changed to Recreate during a rolling update: its next step empties the old ones
	for _, rs := range running {
		if isStale(b, rs) {
			plan = append(plan, resize{rs, size(rs)})
		}
	}
	return plan
}

// whole gives one ReplicaSet all desired replicas.
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

// isSaturated reports whether the current ReplicaSet has all desired replicas, and all of them are available.
func isSaturated(b bounds, rs *appsv1.ReplicaSet) bool {
	sizedFor, ok := noted(rs, desiredAnnotation)
	return ok && sizedFor == b.desired && size(rs) == b.desired && rs.Status.AvailableReplicas == b.desired
}

// proportions spreads the replicas to add or remove over the ReplicaSets in proportion to their sizes, so that scaling does
// not advance a rollout whose new version may be broken. The largest come first, and the very first takes the remainder.
// Of ReplicaSets of equal size the newest comes first when growing, the oldest when shrinking.
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

// fraction is the change of size that keeps a ReplicaSet's share of the ceiling as it was when it was last sized. The
// ceiling of that time is in an annotation; if somebody removed it, status.replicas of the Deployment is used instead.
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

// noted reads a number of pods from an annotation of a ReplicaSet; ok is false if it is missing or invalid.
func noted(rs *appsv1.ReplicaSet, annotation string) (n int32, ok bool) {
	if rs == nil {
		return 0, false
	}
	v, err := strconv.ParseInt(rs.Annotations[annotation], 10, 32)
	return int32(v), err == nil && v >= 0
}
