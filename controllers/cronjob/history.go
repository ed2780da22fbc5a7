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

// pruneRetry is the delay after which a failed deletion is retried. It does not delay the next slot.
const pruneRetry = time.Minute

// choosePrunable picks the finished Jobs beyond the history limits, and removes them from the active list.
func (r *reconciler) choosePrunable(v *view) {
	spec := &v.cj.Spec
	v.prunable = append(excess(v.jobs, batchv1.JobComplete, spec.SuccessfulJobsHistoryLimit), excess(v.jobs, batchv1.JobFailed, spec.FailedJobsHistoryLimit)...)
	for _, j := range v.prunable {
		v.removeActive(j.UID)
	}
}

// excess returns the Jobs that ended with the given condition, except for the limit most recently started ones. A nil limit
// keeps all.
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

// prune deletes the prunable Jobs. A failure is reported by an event and retried later; it is no error of the reconcile.
func (r *reconciler) prune(ctx context.Context, v *view) (res kit.Result) {
	for _, j := range v.prunable {
		if j.DeletionTimestamp != nil {
			continue
		}
		if err := r.remove(ctx, v, refTo(j)); err != nil {
			klog.FromContext(ctx).V(4).Info("Could not delete an old job", "job", klog.KObj(j), "err", err)
			res = kit.After(pruneRetry)
		}
	}
	return res
}

// isGone reports whether the error of a delete with a UID precondition means that the object no longer exists.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }
