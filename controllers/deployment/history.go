package deployment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/klog/v2"

	"orrery/kit/client"
)

// trim deletes the old ReplicaSets beyond the history limit. One that cannot be deleted keeps none of the others.
func (r *reconciler) trim(ctx context.Context, ro *rollout) error {
	var failed error
	for _, rs := range planTrim(ro.d.Spec.RevisionHistoryLimit, ro.old) {
		if err := r.api.deleteSet(ctx, rs); client.IgnoreNotFound(err) != nil {
			failed = errors.Join(failed, fmt.Errorf("delete ReplicaSet %s: %w", klog.KObj(rs), err))
			continue
		}
		klog.FromContext(ctx).V(2).Info("Deleted a ReplicaSet beyond the history limit", "deployment", klog.KObj(ro.d), "replicaSet", rs.Name)
	}
	return failed
}

// byRevision orders ReplicaSets from the lowest revision to the highest, and by age if that does not tell.
func byRevision(a, b *appsv1.ReplicaSet) int {
	x, knownA := revisionOf(a)
	y, knownB := revisionOf(b)
	if !knownA || !knownB {
		return byAge(a, b)
	}
	return cmp.Or(cmp.Compare(x, y), byAge(a, b))
}

// planTrim returns the ReplicaSets to delete: those beyond the limit, lowest revisions first, but only if they are
// empty and their controller has observed that size. One that is not yet empty still counts as excess, so that no newer
// one is deleted in its place; it is deleted later.
func planTrim(limit *int32, old []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	if limit == nil || *limit == math.MaxInt32 {
		return nil
	}
	var alive []*appsv1.ReplicaSet
	for _, rs := range old {
		if rs.DeletionTimestamp == nil {
			alive = append(alive, rs)
		}
	}
	excess := len(alive) - int(*limit)
	if excess <= 0 {
		return nil
	}
	slices.SortFunc(alive, byRevision)
	return slices.DeleteFunc(alive[:excess], func(rs *appsv1.ReplicaSet) bool {
		return size(rs) != 0 || rs.Status.Replicas != 0 || rs.Generation > rs.Status.ObservedGeneration
	})
}
