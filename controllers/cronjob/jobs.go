package cronjob

import (
	"fmt"
	"maps"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ownerKind is the kind of a CronJob in owner references.
var ownerKind = batchv1.SchemeGroupVersion.WithKind("CronJob")

// jobName returns the name of the Job of a slot. It depends on nothing else, so that no two processes start the same slot.
func jobName(cronJob string, slot time.Time) string {
	return fmt.Sprintf("%s-%d", cronJob, slot.Unix()/60)
}

// newJob returns the Job of a slot. Its annotation gives the slot in the time zone of the CronJob.
func newJob(cj *batchv1.CronJob, slot time.Time, zone *time.Location) *batchv1.Job {
	t := &cj.Spec.JobTemplate
	annotations := maps.Clone(t.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[batchv1.CronJobScheduledTimestampAnnotation] = slot.In(zone).Format(time.RFC3339)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cj.Namespace, Name: jobName(cj.Name, slot),
			Labels: maps.Clone(t.Labels), Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cj, ownerKind)},
		},
		Spec: *t.Spec.DeepCopy(),
	}
}

// slotOf returns the slot that a Job was started for; ok is false if the Job was not made by this controller.
func slotOf(cronJob string, job *batchv1.Job) (slot time.Time, ok bool) {
	slot, err := time.Parse(time.RFC3339, job.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
	return slot, err == nil && job.Name == jobName(cronJob, slot)
}

// ending returns the condition with which a Job has ended, or "" if it has not.
func ending(job *batchv1.Job) batchv1.JobConditionType {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

func finished(job *batchv1.Job) bool { return ending(job) != "" }

// refTo returns the entry of a Job in the active list.
func refTo(job *batchv1.Job) corev1.ObjectReference {
	return corev1.ObjectReference{
		Kind: "Job", APIVersion: batchv1.SchemeGroupVersion.String(),
		Namespace: job.Namespace, Name: job.Name, UID: job.UID, ResourceVersion: job.ResourceVersion,
	}
}
