package cronjob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit"
	"orrery/kit/client"
)

// follow brings the status up to date with the existing Jobs.
func (r *reconciler) follow(v *view) {
	for _, j := range v.jobs {
		active := isActive(&v.status, j.UID)
		slot, ours := slotOf(v.cj.Name, j)
		unrecorded := ours && isLater(slot, v.status.LastScheduleTime)
		switch {
		case finished(j):
			if v.removeActive(j.UID) || unrecorded && !slices.Contains(v.prunable, j) {
				r.normal(v, "SawCompletedJob", "Saw completed job: %s, condition: %v", j.Name, ending(j))
			}
			v.noteSuccess(j)
		case !active:
			r.warn(v, "UnexpectedJob", "Saw a job that the controller did not create or forgot: %s", j.Name)
			if ours && j.DeletionTimestamp == nil {
				// It was started by a process that was killed before it could record that. A Job that is being deleted was
				// removed from the list when it was replaced, and must not be added again.
				v.status.Active = append(v.status.Active, refTo(j))
			}
		}
		if unrecorded {
			v.noteSlot(slot)
			// The status update may fail and the Job vanish from the cache before the retry.
			r.unrecorded.add(kit.KeyOf(v.cj), unrecordedSlot{v.cj.UID, slot})
		}
	}
	if u, ok := r.unrecorded.of(v.cj); ok {
		v.noteSlot(u.slot)
	}
}

// noteSlot records that a slot was run.
func (v *view) noteSlot(slot time.Time) {
	if isLater(slot, v.status.LastScheduleTime) {
		v.status.LastScheduleTime = &metav1.Time{Time: slot}
	}
}

// noteSuccess records when a Job succeeded last.
func (v *view) noteSuccess(j *batchv1.Job) {
	if at := j.Status.CompletionTime; ending(j) == batchv1.JobComplete && at != nil && isLater(at.Time, v.status.LastSuccessfulTime) {
		v.status.LastSuccessfulTime = at.DeepCopy()
	}
}

// dropMissing removes Jobs from the active list that no longer exist. It asks the server, since the cache may just be
// behind. A Job that still exists but has lost its owner stays on the list until it has finished.
func (r *reconciler) dropMissing(ctx context.Context, v *view) error {
	var errs []error
	for _, ref := range slices.Clone(v.status.Active) {
		if slices.ContainsFunc(v.jobs, func(j *batchv1.Job) bool { return j.UID == ref.UID }) {
			continue
		}
		j, err := r.namedIn(ctx, ref)
		switch {
		case client.IgnoreNotFound(err) != nil:
			errs = append(errs, fmt.Errorf("read active job %s: %w", ref.Name, err))
		case err != nil || j.UID != ref.UID:
			r.normal(v, "MissingJob", "Active job went missing: %v", ref.Name)
			v.removeActive(ref.UID)
		case finished(j):
			r.normal(v, "SawCompletedJob", "Saw completed job: %s, condition: %v", j.Name, ending(j))
			v.removeActive(ref.UID)
		}
	}
	return errors.Join(errs...)
}

// namedIn reads the Job of an entry of the active list. The server does not validate the entries: an incomplete one is
// treated as a Job that does not exist.
func (r *reconciler) namedIn(ctx context.Context, ref corev1.ObjectReference) (*batchv1.Job, error) {
	if ref.Namespace == "" || ref.Name == "" {
		return nil, apierrors.NewNotFound(batchv1.Resource("jobs"), ref.Name)
	}
	return r.api.liveJob(ctx, kit.Key{Namespace: ref.Namespace, Name: ref.Name})
}

// isRunning reports whether the Job of a slot is among the active ones, by its name.
func (v *view) isRunning(slot time.Time) bool {
	name := jobName(v.cj.Name, slot)
	return slices.ContainsFunc(v.status.Active, func(ref corev1.ObjectReference) bool {
		return ref.Name == name && ref.Namespace == v.cj.Namespace
	})
}
