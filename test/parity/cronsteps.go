package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cronStep draws what happens next to the CronJob.
func cronStep(r *rand.Rand, n int) []step {
	spec := func(format string, args ...any) []step {
		return []step{patched("cronjobs", "c", `{"spec":`+format+`}`, args...)}
	}
	switch r.IntN(16) {
	case 0, 1, 2, 3:
		return []step{ranBefore(pick(r, 0, 1, 2, 2, 3, 24, 30, 99, -5))}
	case 4:
		return spec(`{"schedule":%q}`, pick(r, "0 * * * *", "@hourly", "0 */3 * * *", "0 0 31 2 *", "@every 61m", "0 0 * * 0", "0 0 30 2 1"))
	case 5:
		return spec(`{"suspend":%v}`, chance(r, 3))
	case 6:
		return spec(`{"timeZone":%s}`, pick(r, "null", `"Asia/Kathmandu"`, `"Nowhere/None"`, `"America/New_York"`))
	case 7:
		return spec(`{"successfulJobsHistoryLimit":%d,"failedJobsHistoryLimit":%d}`, 1+r.IntN(2), 1+r.IntN(2))
	case 8:
		return spec(`{"concurrencyPolicy":%q,"startingDeadlineSeconds":%s}`, pick(r, "Allow", "Forbid", "Replace"), pick(r, "null", "7200", "1"))
	case 9, 10:
		return handmade(r, n)
	case 11:
		return []step{slotTaken(r), ranBefore(2)}
	case 12:
		return []step{deleted("jobs", fmt.Sprintf("hand-%d", r.IntN(n+1)), pick(r, metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground, metav1.DeletePropagationBackground))}
	case 13:
		return []step{listedJob(r, n)}
	case 14:
		return []step{podsReport(livePods(0, 1), "succeed", endsWith(corev1.PodSucceeded, 0))}
	default:
		return []step{podsReport(livePods(0, 2), "fail", endsWith(corev1.PodFailed, 1))}
	}
}

// ranBefore is the step in which the CronJob is said to have last run a number of hours before the present one. Beyond 292
// years upstream evaluates the schedule millions of times, and holds up other programs: README, CronJobs. Too many missed times are none if a Job of a later one
// runs, as that is recorded again.
func ranBefore(hours int) step {
	return step{text: fmt.Sprintf("c last ran %d hours ago", hours), do: func(ctx context.Context, s *subject) error {
		at := thisHour().Add(-time.Duration(hours) * time.Hour)
		return s.patch(ctx, "cronjobs", "c", fmt.Sprintf(`{"status":{"lastScheduleTime":%q}}`, at.UTC().Format(time.RFC3339)), "status")
	}}
}

func thisHour() time.Time { return time.Now().Truncate(time.Hour) }

// handmade is a Job of the CronJob that a user has made, as by kubectl create job --from, and that may have ended.
func handmade(r *rand.Rand, n int) []step {
	t := template("c", pick(r, stay, succeed))
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("hand-%d", n)}, Spec: batchv1.JobSpec{Template: t, BackoffLimit: new(int32(0))}}
	end := pick(r, "", "", "Complete", "Complete", "Failed")
	if end != "" {
		job.Spec.ManagedBy = new("example.com/other") // the user says how it ended
	}
	if chance(r, 4) {
		job.Finalizers = []string{"example.com/hold"}
	}
	controls := !chance(r, 4)
	steps := []step{{text: fmt.Sprintf("create %s, controlled by c: %v", job.Name, controls), do: func(ctx context.Context, s *subject) error {
		own := job.DeepCopy()
		own.OwnerReferences = s.cronRef(ctx, controls)
		return s.create(ctx, "jobs", own)
	}}}
	if end != "" {
		steps = append(steps, endedJob(job.Name, end, r.IntN(40)))
	}
	if len(job.Finalizers) > 0 {
		if chance(r, 2) {
			steps = append(steps, ranBefore(2))
		}
		steps = append(steps, patched("jobs", job.Name, `{"metadata":{"finalizers":null}}`))
	}
	return steps
}

func (s *subject) cronRef(ctx context.Context, controls bool) []metav1.OwnerReference {
	cron, err := s.client.BatchV1().CronJobs(s.namespace).Get(ctx, "c", metav1.GetOptions{})
	if err != nil {
		return nil
	}
	ref := metav1.NewControllerRef(cron, batchv1.SchemeGroupVersion.WithKind("CronJob"))
	if !controls {
		ref.Controller = nil
	}
	return []metav1.OwnerReference{*ref}
}

// endedJob is the step in which a Job that no controller looks after is said to have ended some hours ago.
func endedJob(name, how string, hours int) step {
	interim := map[string]string{"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[how]
	return step{text: fmt.Sprintf("%s ended as %s %d hours ago", name, how, hours), do: func(ctx context.Context, s *subject) error {
		at := thisHour().Add(-time.Duration(hours) * time.Hour).UTC().Format(time.RFC3339)
		completion := ""
		if how == "Complete" {
			completion = fmt.Sprintf(`"completionTime":%q,`, at)
		}
		patch := fmt.Sprintf(`{"status":{"startTime":%[1]q,%[2]s"conditions":[{"type":%[3]q,"status":"True","lastTransitionTime":%[1]q},{"type":%[4]q,"status":"True","lastTransitionTime":%[1]q}]}}`, at, completion, interim, how)
		return s.patch(ctx, "jobs", name, patch, "status")
	}}
}

// slotTaken is the step in which a user creates a Job with the name that the next Job of the CronJob will have.
func slotTaken(r *rand.Rand) step {
	t := template("c", pick(r, stay, succeed))
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	owned := chance(r, 2)
	return step{text: fmt.Sprintf("create a Job with the name of the next, owned: %v", owned), do: func(ctx context.Context, s *subject) error {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c-%d", thisHour().Unix()/60)}, Spec: batchv1.JobSpec{Template: t}}
		if owned {
			job.OwnerReferences = s.cronRef(ctx, true)
		}
		return s.create(ctx, "jobs", job)
	}}
}

// jobOver reports whether a Job has completed or failed.
func jobOver(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

// listedJob is the step in which a user edits the list of active Jobs.
func listedJob(r *rand.Rand, n int) step {
	const unknown = "6bc4a0a6-1111-4222-8333-444455556666"
	gone, name := chance(r, 2), fmt.Sprintf("hand-%d", r.IntN(n+1))
	return step{text: fmt.Sprintf("list a Job as active: %s, or one that is gone: %v", name, gone), do: func(ctx context.Context, s *subject) error {
		// Orrery puts a Job back that it has started itself: README, CronJobs. So the list is added to.
		cron, err := s.client.BatchV1().CronJobs(s.namespace).Get(ctx, "c", metav1.GetOptions{})
		if err != nil {
			return err
		}
		ref := corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: s.namespace, Name: "gone", UID: unknown}
		if !gone { // not with another UID: upstream keeps such an entry for ever, README, CronJobs
			job, err := s.client.BatchV1().Jobs(s.namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if jobOver(job) && !metav1.IsControlledBy(job, cron) {
				return nil // upstream keeps such an entry for ever, too
			}
			ref.Name, ref.UID = name, job.UID
		}
		cron.Status.Active = append(cron.Status.Active, ref)
		active, err := json.Marshal(cron.Status.Active)
		if err != nil {
			return err
		}
		return s.patch(ctx, "cronjobs", "c", `{"status":{"active":`+string(active)+`}}`, "status")
	}}
}
