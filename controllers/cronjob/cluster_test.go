package cronjob

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

type cronJobOption func(*batchv1.CronJob)

// newCronJob returns a CronJob with the server's defaults.
func newCronJob(name, schedule string, opts ...cronJobOption) *batchv1.CronJob {
	cj := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: batchv1.CronJobSpec{
			Schedule: schedule, ConcurrencyPolicy: batchv1.AllowConcurrent, Suspend: new(bool),
			SuccessfulJobsHistoryLimit: new(int32(3)), FailedJobsHistoryLimit: new(int32(1)),
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "img:1"}},
			}}}},
		},
	}
	for _, o := range opts {
		o(cj)
	}
	return cj
}

func policy(p batchv1.ConcurrencyPolicy) cronJobOption {
	return func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = p }
}

func startBy(seconds int64) cronJobOption {
	return func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = &seconds }
}

func history(succeeded, failed int32) cronJobOption {
	return func(cj *batchv1.CronJob) {
		cj.Spec.SuccessfulJobsHistoryLimit, cj.Spec.FailedJobsHistoryLimit = &succeeded, &failed
	}
}

func suspended(on bool) cronJobOption {
	return func(cj *batchv1.CronJob) { cj.Spec.Suspend = &on }
}

// end marks a Job as ended.
func end(j *batchv1.Job, kind batchv1.JobConditionType, when time.Time) {
	at := metav1.NewTime(when)
	j.Status.StartTime = &at
	if kind == batchv1.JobComplete {
		j.Status.CompletionTime = &at
	}
	j.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: at}}
}

// finish ends a stored Job, as the Job controller does.
func finish(t *testing.T, api *kittest.API, name string, kind batchv1.JobConditionType) {
	t.Helper()
	j := jobOf(t, api, name)
	end(j, kind, time.Now())
	api.Update(t, j)
	api.Settle()
}

func jobOf(t *testing.T, api *kittest.API, name string) *batchv1.Job {
	t.Helper()
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if !api.Get(t, j) {
		t.Fatalf("there is no Job %s", name)
	}
	return j
}

func read(t *testing.T, api *kittest.API, name string) *batchv1.CronJob {
	t.Helper()
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if !api.Get(t, cj) {
		t.Fatalf("there is no CronJob %s", name)
	}
	return cj
}

// change changes the stored CronJob as a user does.
func change(t *testing.T, api *kittest.API, name string, opts ...cronJobOption) {
	t.Helper()
	cj := read(t, api, name)
	for _, o := range opts {
		o(cj)
	}
	cj.Generation++
	api.Update(t, cj)
	api.Settle()
}

// told returns the controller's events since the last n.
func told(api *kittest.API, n int) []string {
	var out []string
	for _, e := range api.Events()[n:] {
		out = append(out, e.Type+" "+e.Reason+": "+e.Message)
	}
	return out
}

// jobs returns the names of the Jobs that exist.
func jobs(t *testing.T, api *kittest.API) (names []string) {
	t.Helper()
	for _, j := range kittest.List[batchv1.Job](t, api, "default") {
		names = append(names, j.Name)
	}
	return names
}
