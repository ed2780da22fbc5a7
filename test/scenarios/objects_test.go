package scenarios

import (
	"errors"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// gone waits until an object of a kind, named as in kubectl, no longer exists.
func (e *env) gone(t *testing.T, kind, namespace, name string) {
	t.Helper()
	eventually(t, kind+" "+namespace+"/"+name+" gone", func() error {
		out, err := e.tryKubectl(t, "", "-n", namespace, "get", kind, name, "-o", "name", "--ignore-not-found")
		if err != nil {
			return err
		}
		if out != "" {
			return errors.New("it is still there")
		}
		return nil
	})
}

// finishedJob makes a Job that has completed and is to be deleted ttl seconds later. Its status is written here
// because the pods of a cluster without a job controller never run.
func (e *env) finishedJob(t *testing.T, namespace, name string, ttl int32) {
	t.Helper()
	suspended := true
	jobs := e.Client().BatchV1().Jobs(namespace)
	pod := podSpec("fake:1")
	pod.RestartPolicy = corev1.RestartPolicyNever
	must(jobs.Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			TTLSecondsAfterFinished: &ttl, Suspend: &suspended,
			Template: corev1.PodTemplateSpec{Spec: pod},
		},
	}, metav1.CreateOptions{}))(t)
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	condition := func(kind batchv1.JobConditionType) batchv1.JobCondition {
		return batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now, LastProbeTime: now}
	}
	eventually(t, "status of job "+name, func() error {
		job, err := jobs.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		job.Status.StartTime, job.Status.CompletionTime = &now, &now
		job.Status.Conditions = []batchv1.JobCondition{condition(batchv1.JobSuccessCriteriaMet), condition(batchv1.JobComplete)}
		_, err = jobs.UpdateStatus(t.Context(), job, metav1.UpdateOptions{})
		return err
	})
}

// create creates n ConfigMaps with an owner, or without one.
func (e *env) configMaps(t *testing.T, namespace string, n int, owners ...metav1.OwnerReference) (names []string) {
	t.Helper()
	for i := range n {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("held-%d", i), OwnerReferences: owners}}
		must(e.Client().CoreV1().ConfigMaps(namespace).Create(t.Context(), cm, metav1.CreateOptions{}))(t)
		names = append(names, cm.Name)
	}
	return names
}
