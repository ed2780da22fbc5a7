package history

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
)

// Sort puts revisions in the order of their numbers; those of the same number from the oldest to the newest, and then
// by name.
func Sort(revisions []*appsv1.ControllerRevision) {
	slices.SortFunc(revisions, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// Next returns the number of the revision that comes after all of these, in any order. The first one is 1.
func Next(revisions []*appsv1.ControllerRevision) int64 {
	var last int64
	for _, r := range revisions {
		last = max(last, r.Revision)
	}
	return last + 1
}

// Surplus returns those of the sorted revisions that are to be deleted so that no more than limit remain, the lowest
// numbers first. Revisions in use are never among them. For StatefulSets they do not count against the limit, for
// DaemonSets they do. A negative limit keeps all.
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
	if f.keepsUsedWithin {
		count = len(sorted)
	}
	return idle[:min(len(idle), max(0, count-int(limit)))]
}
