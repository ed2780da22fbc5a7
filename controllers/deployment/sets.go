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

// findCurrent returns the place of the ReplicaSet that runs the Deployment's template in a list sorted by age, or -1.
// If there are several, as when a new version has learned to see two templates as the same, it is the oldest.
func findCurrent(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) int {
	return slices.IndexFunc(sets, func(rs *appsv1.ReplicaSet) bool {
		return sameTemplate(&rs.Spec.Template, &d.Spec.Template)
	})
}

// active returns the ReplicaSets that are asked for pods.
func active(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	var out []*appsv1.ReplicaSet
	for _, rs := range sets {
		if size(rs) > 0 {
			out = append(out, rs)
		}
	}
	return out
}

// size is the number of pods that a ReplicaSet is asked for; 0 if there is no ReplicaSet.
func size(rs *appsv1.ReplicaSet) int32 {
	if rs == nil {
		return 0
	}
	return count(rs.Spec.Replicas)
}

// reliable is the number of available pods that a ReplicaSet will keep, as far as that is known. Its status may count
// pods that its size no longer covers and that are about to go. A status from before its size was last changed says
// nothing: the size may have been smaller in between, as when a template comes back, and the pods are gone.
func reliable(rs *appsv1.ReplicaSet) int32 {
	if rs == nil || rs.Status.ObservedGeneration < rs.Generation {
		return 0
	}
	return min(rs.Status.AvailableReplicas, size(rs))
}

// idle is the number of pods that a ReplicaSet is asked for and that are known not to be available.
func idle(rs *appsv1.ReplicaSet) int32 {
	if rs.Status.ObservedGeneration < rs.Generation {
		return 0
	}
	return size(rs) - reliable(rs)
}

// sum adds up one number of each ReplicaSet.
func sum(sets []*appsv1.ReplicaSet, number func(*appsv1.ReplicaSet) int32) int32 {
	var total int32
	for _, rs := range sets {
		total += number(rs)
	}
	return total
}
