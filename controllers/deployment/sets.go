package deployment

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
)

// byAge orders ReplicaSets from the oldest to the newest, those of the same second by name.
func byAge(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// findCurrent returns the index of the ReplicaSet with the Deployment's template in a list sorted by age, or -1. There can
// be several, if an earlier version took templates for different that are now equal; then it is the oldest.
func findCurrent(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) int {
	return slices.IndexFunc(sets, func(rs *appsv1.ReplicaSet) bool {
		return sameTemplate(&rs.Spec.Template, &d.Spec.Template)
	})
}

// active returns the ReplicaSets whose size is not 0.
func active(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	var out []*appsv1.ReplicaSet
	for _, rs := range sets {
		if size(rs) > 0 {
			out = append(out, rs)
		}
	}
	return out
}

// size is spec.replicas of a ReplicaSet; 0 for nil.
func size(rs *appsv1.ReplicaSet) int32 {
	if rs == nil {
		return 0
	}
	return count(rs.Spec.Replicas)
}

// reliable is the number of available pods that are known to stay. The status may count pods beyond the size, which are
// about to be deleted. A status from before the last change of size says nothing: the size may have been smaller in
// between, as when a rollout is reverted midway, and the pods are gone.
func reliable(rs *appsv1.ReplicaSet) int32 {
	if rs == nil || rs.Status.ObservedGeneration < rs.Generation {
		return 0
	}
	return min(rs.Status.AvailableReplicas, size(rs))
}

// idle is how much of a ReplicaSet's size is known not to be available; 0 if the status is out of date.
func idle(rs *appsv1.ReplicaSet) int32 {
	if rs.Status.ObservedGeneration < rs.Generation {
		return 0
	}
	return size(rs) - reliable(rs)
}

// sum adds up number over the ReplicaSets.
func sum(sets []*appsv1.ReplicaSet, number func(*appsv1.ReplicaSet) int32) int32 {
	var total int32
	for _, rs := range sets {
		total += number(rs)
	}
	return total
}
