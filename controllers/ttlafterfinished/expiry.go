package ttlafterfinished

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// expiry returns when a Job may be deleted; ok is false for Jobs that have not finished, have no TTL or are already being
// deleted.
func expiry(job *batchv1.Job) (at time.Time, ok bool) {
	if job.Spec.TTLSecondsAfterFinished == nil || job.DeletionTimestamp != nil {
		return at, false
	}
	finished, ok := finishTime(job)
	return finished.Add(time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second), ok
}

// finishTime returns when a Job finished; ok is false if it has not, or if its condition has no transition time, so that
// its age is unknown.
func finishTime(job *batchv1.Job) (at time.Time, ok bool) {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time, !c.LastTransitionTime.IsZero()
		}
	}
	return at, false
}

// ttlLeft returns how much is left of a finished Job's TTL, which is 0 or less once it has expired.
func ttlLeft(ctx context.Context, job *batchv1.Job, now time.Time) (left time.Duration, ok bool) {
	at, ok := expiry(job)
	if !ok {
		return 0, false
	}
	if finished, _ := finishTime(job); finished.After(now) {
		klog.FromContext(ctx).Info("Warning: the job finished in the future because of clock skew; its deletion is delayed",
			"job", klog.KObj(job), "finished", finished)
	}
	return at.Sub(now), true
}
