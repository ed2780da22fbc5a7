package statefulset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/internal/history"
)

// revisions are the two that the pods of a set are made from. Both are the same unless an update is under way.
type revisions struct {
	current, update *appsv1.ControllerRevision
	collisions      int32
}

// revisionsOf finds the current and the update revision of a set among its sorted revisions. It creates the revision of the
// set's template if there is none, and makes it the last one if it is an earlier one. For a set that is being deleted it
// creates nothing, as that would only have to be deleted too. After an error a revision that is not known is nil.
func (r *reconciler) revisionsOf(ctx context.Context, set *appsv1.StatefulSet, sorted []*appsv1.ControllerRevision) (revs revisions, err error) {
	if n := set.Status.CollisionCount; n != nil {
		revs.collisions = *n
	}
	wanted := history.Want(set, &set.Spec.Template)
	if revs.update, err = r.history.Find(wanted, sorted); err != nil {
		return revs, err
	}
	switch {
	case set.DeletionTimestamp != nil:
		if revs.update == nil {
			revs.update = named(set.Status.UpdateRevision)
		}
	case revs.update == nil:
		revs.update, revs.collisions, err = r.newRevision(ctx, set, wanted, history.Next(sorted), revs.collisions)
	case revs.update != sorted[len(sorted)-1]:
		var last *appsv1.ControllerRevision
		if last, err = r.history.Renumber(ctx, revs.update, history.Next(sorted)); err == nil {
			revs.update = last
		}
	}
	if err != nil {
		return revs, err
	}
	revs.current = revs.update
	for _, revision := range sorted {
		if revision.Name == set.Status.CurrentRevision {
			revs.current = revision
		}
	}
	return revs, nil
}

func (r *reconciler) newRevision(ctx context.Context, set *appsv1.StatefulSet, wanted *history.Wanted, number int64, collisions int32) (*appsv1.ControllerRevision, int32, error) {
	data, err := wanted.Data()
	if err != nil {
		return nil, collisions, err
	}
	return r.history.CreateCounting(ctx, wanted, r.history.New(set, &set.Spec.Template, data, number, &collisions), collisions)
}

// named stands for a revision that no longer exists and of which only the name is known.
func named(name string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// truncate deletes the oldest revisions beyond the set's limit, except those that pods were made from, and the current and the
// update revision. If one of these could not be found or created, those in the status are kept.
func (r *reconciler) truncate(ctx context.Context, set *appsv1.StatefulSet, pods []*corev1.Pod, revs revisions, sorted []*appsv1.ControllerRevision) error {
	limit := int32(10)
	if n := set.Spec.RevisionHistoryLimit; n != nil {
		limit = *n
	}
	if len(sorted) <= int(limit) {
		return nil
	}
	used := map[string]bool{}
	for _, revision := range []*appsv1.ControllerRevision{revs.current, revs.update} {
		if revision == nil {
			used[set.Status.CurrentRevision], used[set.Status.UpdateRevision] = true, true
			continue
		}
		used[revision.Name] = true
	}
	for _, pod := range pods {
		used[revisionOf(pod)] = true
	}
	return r.history.Truncate(ctx, sorted, limit, func(revision *appsv1.ControllerRevision) bool { return used[revision.Name] })
}
