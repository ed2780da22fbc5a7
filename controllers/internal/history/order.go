package history

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
)

// Sort sorts revisions by number, then from the oldest to the newest, then by name.
func Sort(revisions []*appsv1.ControllerRevision) {
	slices.SortFunc(revisions, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// Next returns the number for the next revision: one more than the highest, or 1 if there are none.
func Next(revisions []*appsv1.ControllerRevision) int64 {
	var last int64
	for _, r := range revisions {
		last = max(last, r.Revision)
	}
	return last + 1
}

// Surplus returns the revisions to delete so that no more than limit remain, from the lowest numbers up. Revisions in use
// are never deleted. They count against the limit for DaemonSets, but not for StatefulSets. A negative limit keeps all.
func (f Format) Surplus(sorted []*appsv1.ControllerRevision, limit int32, inUse func(*appsv1.ControllerRevision) bool) []*appsv1.ControllerRevision {
	if limit < 0 {
		return nil
	}
	var idle []*appsv1.ControllerRevision
	for _, r := range sorted {
		if !inUse(r) {
			idle = append(idle, r)
		}
	}
	count := len(idle)
	if f.limitCountsUsed {
		count = len(sorted)
	}
	return idle[:min(len(idle), max(0, count-int(limit)))]
}
