package cronjob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"orrery/kit"
	"orrery/kit/client"
)

type reconciler struct {
	api        api
	recorder   record.EventRecorder
	metrics    metrics
	unrecorded *unrecordedSlots
}

// view is a CronJob and its Jobs as they were read, and the status to be written.
type view struct {
	cj       *batchv1.CronJob
	jobs     []*batchv1.Job // sorted by name
	prunable []*batchv1.Job // those of jobs that exceed the history limits
	status   batchv1.CronJobStatus
	now      time.Time
}

// Reconcile starts the Job that is due, records the state of earlier ones, and deletes old ones. A Job is deleted only
// after the status that was derived from it has been stored.
func (r *reconciler) Reconcile(ctx context.Context, cj *batchv1.CronJob) (kit.Result, error) {
	v, err := r.observe(ctx, cj)
	if err != nil || v == nil {
		return kit.Done, err
	}
	r.choosePrunable(v)
	r.follow(v)
	res := kit.Done
	if err = r.dropMissing(ctx, v); err == nil && v.cj.DeletionTimestamp == nil {
		res, err = r.run(ctx, v)
	}
	if recErr := r.record(ctx, v); recErr != nil {
		return kit.Done, errors.Join(err, recErr)
	}
	return kit.Sooner(res, r.prune(ctx, v)), err
}

// observe finds the Jobs of a CronJob. If one is unfinished and not in the active list, the CronJob is read from the server:
// another process may have recorded it a moment ago. The view is nil if the CronJob no longer exists.
func (r *reconciler) observe(ctx context.Context, cj *batchv1.CronJob) (*view, error) {
	jobs := r.api.jobsOf(cj)
	if slices.ContainsFunc(jobs, func(j *batchv1.Job) bool { return !finished(j) && !isActive(&cj.Status, j.UID) }) {
		live, err := r.api.liveCronJob(ctx, kit.KeyOf(cj))
		switch {
		case client.IgnoreNotFound(err) != nil:
			return nil, fmt.Errorf("read CronJob: %w", err)
		case err != nil || live.UID != cj.UID:
			return nil, nil
		}
		cj = live
	}
	slices.SortFunc(jobs, func(a, b *batchv1.Job) int { return cmp.Compare(a.Name, b.Name) })
	return &view{cj: cj, jobs: jobs, status: *cj.Status.DeepCopy(), now: time.Now()}, nil
}

// record writes the status if it differs from what is stored.
func (r *reconciler) record(ctx context.Context, v *view) error {
	if !apiequality.Semantic.DeepEqual(&v.cj.Status, &v.status) {
		if err := r.api.updateStatus(ctx, &batchv1.CronJob{ObjectMeta: v.cj.ObjectMeta, Status: v.status}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("update status: %w", err)
		}
	}
	r.unrecorded.recorded(v.cj, v.status.LastScheduleTime)
	return nil
}

// normal and warn publish events about the CronJob.
func (r *reconciler) normal(v *view, reason, format string, args ...any) {
	r.recorder.Eventf(v.cj, corev1.EventTypeNormal, reason, format, args...)
}

func (r *reconciler) warn(v *view, reason, format string, args ...any) {
	r.recorder.Eventf(v.cj, corev1.EventTypeWarning, reason, format, args...)
}

func isActive(s *batchv1.CronJobStatus, job types.UID) bool {
	return slices.ContainsFunc(s.Active, func(ref corev1.ObjectReference) bool { return ref.UID == job })
}

// removeActive removes a Job from the active list and reports whether it was there.
func (v *view) removeActive(job types.UID) bool {
	n := len(v.status.Active)
	v.status.Active = slices.DeleteFunc(v.status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == job })
	return len(v.status.Active) < n
}
