package cronjob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/client"
)

// run starts the Job that is due, if any, and requeues the CronJob for the next slot. If the schedule or the time zone is
// invalid it reports that and waits for a change.
func (r *reconciler) run(ctx context.Context, v *view) (kit.Result, error) {
	log := klog.FromContext(ctx)
	zone, err := zoneOf(v.cj)
	if err != nil {
		r.warn(v, "UnknownTimeZone", "invalid timeZone: %q: %s", *v.cj.Spec.TimeZone, err)
		return kit.Done, nil
	}
	if v.cj.Spec.Suspend != nil && *v.cj.Spec.Suspend {
		log.V(4).Info("Not starting a job: the CronJob is suspended")
		return kit.Done, nil
	}
	if namesZone(v.cj) {
		r.warn(v, "UnsupportedSchedule", "CRON_TZ or TZ used in schedule %q is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", v.cj.Spec.Schedule)
	}
	s, err := parse(v.cj)
	if err != nil {
		r.warn(v, "UnparseableSchedule", "unparseable schedule: %q : %s", v.cj.Spec.Schedule, err)
		return kit.Done, nil
	}
	slots, err := due(s, deadline(v.cj, begin(v.cj, &v.status), v.now), v.now)
	if err != nil {
		r.warn(v, "InvalidSchedule", "invalid schedule: %s : %s", v.cj.Spec.Schedule, err)
		return kit.Done, nil
	}
	if slots.latest.IsZero() {
		log.V(4).Info("Not starting a job: no slot is due")
		return v.wait(s), nil
	}
	if slots.missed > manyMissed {
		r.warn(v, "TooManyMissedTimes", "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	return v.wait(s), r.handle(ctx, v, slots.latest, zone)
}

// wait requeues the CronJob for the next slot.
func (v *view) wait(s cron.Schedule) kit.Result {
	return kit.After(untilNext(s, begin(v.cj, &v.status), v.now))
}

// verdict is the decision about a slot that is due.
type verdict int

const (
	start   verdict = iota
	late            // its deadline has passed
	handled         // its Job was started before
	blocked         // another Job is running, and concurrencyPolicy is Forbid
)

// judge decides whether to start the Job of a slot that is due.
func (v *view) judge(slot time.Time) verdict {
	spec := &v.cj.Spec
	switch {
	case spec.StartingDeadlineSeconds != nil && slot.Add(seconds(*spec.StartingDeadlineSeconds)).Before(v.now):
		return late
	case v.isRunning(slot) || v.status.LastScheduleTime.Equal(&metav1.Time{Time: slot}):
		return handled
	case spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(v.status.Active) > 0:
		return blocked
	}
	return start
}

// handle acts on the verdict about a slot.
func (r *reconciler) handle(ctx context.Context, v *view, slot time.Time, zone *time.Location) error {
	switch v.judge(slot) {
	case late:
		r.warn(v, "MissSchedule", "Missed scheduled time to start a job: %s", slot.UTC().Format(time.RFC1123Z))
	case handled:
		klog.FromContext(ctx).V(4).Info("Not starting a job: the slot was handled before", "slot", slot)
	case blocked:
		r.normal(v, "JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
	case start:
		if err := r.confirm(ctx, v); err != nil {
			return client.IgnoreNotFound(err)
		}
		if v.cj.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent {
			if err := r.deleteActive(ctx, v); err != nil {
				return err
			}
		}
		return r.start(ctx, v, slot, zone)
	}
	return nil
}

// confirm makes sure that the decision was based on the latest version of the CronJob. A start cannot be undone, and to a
// stale cache a slot may seem due although another process has run it and its Job is already deleted.
func (r *reconciler) confirm(ctx context.Context, v *view) error {
	live, err := r.api.liveCronJob(ctx, kit.KeyOf(v.cj))
	if err != nil {
		return fmt.Errorf("read CronJob: %w", err)
	}
	if live.UID != v.cj.UID || live.ResourceVersion != v.cj.ResourceVersion {
		return apierrors.NewConflict(batchv1.Resource("cronjobs"), v.cj.Name, errors.New("the cache is behind"))
	}
	return nil
}

// deleteActive deletes the Jobs that are still running, so that the next one replaces them.
func (r *reconciler) deleteActive(ctx context.Context, v *view) error {
	var errs []error
	for _, ref := range slices.Clone(v.status.Active) {
		if err := r.remove(ctx, v, ref); err != nil {
			errs = append(errs, fmt.Errorf("replace job %s: %w", ref.Name, err))
		}
	}
	return errors.Join(errs...)
}

// remove deletes a Job and removes it from the active list.
func (r *reconciler) remove(ctx context.Context, v *view, ref corev1.ObjectReference) error {
	err := r.api.deleteJob(ctx, kit.Key{Namespace: ref.Namespace, Name: ref.Name}, ref.UID)
	switch {
	case err != nil && !isGone(err):
		r.warn(v, "FailedDelete", "Deleted job: %v", err)
		return err
	case err == nil:
		r.normal(v, "SuccessfulDelete", "Deleted job %v", ref.Name)
	}
	v.removeActive(ref.UID)
	return nil
}

// start creates the Job of a slot, and adds it to the status.
func (r *reconciler) start(ctx context.Context, v *view, slot time.Time, zone *time.Location) error {
	wanted := newJob(v.cj, slot, zone)
	j, err := r.api.createJob(ctx, wanted)
	switch {
	case apierrors.IsAlreadyExists(err):
		return r.adopt(ctx, v, kit.KeyOf(wanted), slot)
	case client.IsNamespaceTerminating(err):
		return fmt.Errorf("create job %s: %w", wanted.Name, err)
	case err != nil:
		r.warn(v, "FailedCreate", "Error creating job: %v", err)
		return fmt.Errorf("create job %s: %w", wanted.Name, err)
	}
	klog.FromContext(ctx).Info("Created job", "job", klog.KObj(j), "slot", slot)
	r.metrics.skew.Observe(j.CreationTimestamp.Sub(slot).Seconds())
	r.normal(v, "SuccessfulCreate", "Created job %v", j.Name)
	v.status.Active = append(v.status.Active, refTo(j))
	v.noteSlot(slot)
	return nil
}

// adopt adds the Job of a slot to the status if it exists already: this controller may have created it without recording
// it, or two slots are less than a minute apart and share a name. If a Job of that name is not controlled by the CronJob,
// the slot cannot be run.
func (r *reconciler) adopt(ctx context.Context, v *view, key kit.Key, slot time.Time) error {
	j, err := r.api.liveJob(ctx, key)
	if err != nil {
		return fmt.Errorf("read existing job %s: %w", key.Name, err)
	}
	klog.FromContext(ctx).Info("The job already exists", "job", klog.KObj(j), "slot", slot)
	if !metav1.IsControlledBy(j, v.cj) || isActive(&v.status, j.UID) {
		return nil
	}
	if finished(j) {
		r.normal(v, "SawCompletedJob", "Saw completed job: %s, condition: %v", j.Name, ending(j))
		v.noteSuccess(j)
	} else {
		v.status.Active = append(v.status.Active, refTo(j))
	}
	v.noteSlot(slot)
	return nil
}
