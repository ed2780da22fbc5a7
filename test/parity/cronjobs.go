package main

import (
	"math/rand/v2"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cronJobProgram runs a CronJob that is due once an hour. Its status is set back, so that it is due at once.
func cronJobProgram(r *rand.Rand) program {
	t := template("c", pick(r, stay, runs, succeed, fail))
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: batchv1.CronJobSpec{
		Schedule:                   pick(r, "0 * * * *", "0 * * * *", "@hourly", "0 */2 * * *", "@daily", "0 0 31 2 *", "0 0 1 1 *"),
		ConcurrencyPolicy:          pick(r, "", batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent),
		StartingDeadlineSeconds:    pick(r, nil, nil, new(int64(0)), new(int64(7200)), new(int64(90000)), new(int64(9000000000))),
		SuccessfulJobsHistoryLimit: pick(r, nil, new(int32(1)), new(int32(2))),
		FailedJobsHistoryLimit:     pick(r, nil, new(int32(1)), new(int32(2))),
		JobTemplate:                batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: t, BackoffLimit: new(int32(0))}},
	}}
	s := &cron.Spec
	if chance(r, 3) {
		s.TimeZone = new(pick(r, "Etc/UTC", "Europe/Berlin", "Asia/Kathmandu", "Pacific/Kiritimati", "local", "Nowhere/None", ""))
	}
	if chance(r, 5) {
		s.Suspend = new(true)
	}
	if chance(r, 4) {
		s.JobTemplate.Spec.TTLSecondsAfterFinished = new(int32(0))
	}
	if chance(r, 4) {
		s.JobTemplate.Labels = map[string]string{"job": "yes"}
		s.JobTemplate.Annotations = map[string]string{"note": "x", batchv1.CronJobScheduledTimestampAnnotation: "never"}
		s.JobTemplate.Finalizers = nil
	}
	if chance(r, 8) {
		// A pod is refused.
		s.JobTemplate.Spec.Template.Spec.ServiceAccountName = "none"
	}
	// With limits of 0 upstream may delete a Job before it has recorded its end, and then miss it: README, CronJobs.
	p := program{steps: []step{created("cronjobs", cron)}}
	if chance(r, 3) {
		p.steps = append(p.steps, ranBefore(pick(r, 101, 150, 24*365*30)))
	}
	for n := range 3 + r.IntN(4) {
		p.steps = append(p.steps, cronStep(r, n)...)
	}
	if chance(r, 4) {
		p.steps = append(p.steps, deleted("cronjobs", "c", metav1.DeletePropagationOrphan), created("cronjobs", cron), ranBefore(2))
	}
	p.steps = append(p.steps, deleted("cronjobs", "c", pick(r, metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground, metav1.DeletePropagationBackground)))
	return p
}
