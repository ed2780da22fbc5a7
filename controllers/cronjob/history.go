package cronjob

import (
	"cmp"
	"context"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"orrery/kit"
)

// pruneAgain is when a Job whose deletion failed is tried again. The next slot does not wait for it.
const pruneAgain = time.Minute

// retire picks the finished Jobs that are beyond the limits of the history. They do not count as active.
func (r *reconciler) retire(v *view) {
	spec := &v.cj.Spec
	v.spent = append(excess(v.jobs, batchv1.JobComplete, spec.SuccessfulJobsHistoryLimit), excess(v.jobs, batchv1.JobFailed, spec.FailedJobsHistoryLimit)...)
	for _, j := range v.spent {
		v.removeActive(j.UID)
	}
}

// excess returns the Jobs that ended in that way, but for the limit of those that started last. No limit keeps all.
func excess(jobs []*batchv1.Job, end batchv1.JobConditionType, limit *int32) []*batchv1.Job {
	if limit == nil {
		return nil
	}
	var ended []*batchv1.Job
	for _, j := range jobs {
		if ending(j) == end {
			ended = append(ended, j)
		}
	}
	slices.SortFunc(ended, byStart)
	return ended[:max(0, len(ended)-int(*limit))]
}

// byStart orders by start time and then name; Jobs that never started come last.
func byStart(a, b *batchv1.Job) int {
	x, y := a.Status.StartTime, b.Status.StartTime
	switch {
	case x == nil && y != nil:
		return 1
	case x != nil && y == nil:
		return -1
	case x.Equal(y):
		return cmp.Compare(a.Name, b.Name)
	}
	return x.Compare(y.Time)
}

// prune deletes what the history has no room for. A failure is told to the user and holds nothing up.
func (r *reconciler) prune(ctx context.Context, v *view) (res kit.Result) {
	for _, j := range v.spent {
		if j.DeletionTimestamp != nil {
			continue
		}
		if err := r.remove(ctx, v, refTo(j)); err != nil {
			klog.FromContext(ctx).V(4).Info("Could not delete an old job", "job", klog.KObj(j), "err", err)
			res = kit.After(pruneAgain)
		}
	}
	return res
}

// gone makes of the error of a deletion what it means for a Job of one UID: it is gone.
func gone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }
