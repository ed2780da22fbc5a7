package main

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// parallelism is how many pods of a Job run at once.
const parallelism = 50

// jobs runs the phases of Jobs, whose pods succeed as soon as they run: all of them to completion, and their deletion
// with all their pods.
func (b *bench) jobs(ctx context.Context) error {
	j := &jobs{client: b.client, namespace: fmt.Sprintf("bench-%s-jobs-%d", b.kind, b.round), size: b.settings.jobs}
	return b.steps(ctx, j.size.String(), j.size.count*j.size.each, func() error { return makeNamespace(ctx, b.client, j.namespace) }, []step{
		{"job", func() error { return j.create(ctx) }, func() (bool, error) { return j.complete(ctx) }},
		{"job-delete", func() error { return j.remove(ctx) }, func() (bool, error) { return podsGone(ctx, b.client, j.namespace) }},
		{"", func() error { return removeNamespace(ctx, b.client, j.namespace) }, func() (bool, error) { return namespaceGone(ctx, b.client, j.namespace) }},
	})
}

// jobs are Jobs with the same number of completions.
type jobs struct {
	client    kubernetes.Interface
	namespace string
	size      size
}

func (j *jobs) create(ctx context.Context) error {
	each, atOnce := int32(j.size.each), int32(parallelism)
	pod := template(nil, "")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	for i := range j.size.count {
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("job-%03d", i)},
			Spec:       batchv1.JobSpec{Completions: &each, Parallelism: &atOnce, Template: pod},
		}
		if _, err := j.client.BatchV1().Jobs(j.namespace).Create(ctx, job, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// complete reports whether every Job is complete, and has counted exactly the pods that it was to have. One that has
// failed, or has counted more, is an error.
func (j *jobs) complete(ctx context.Context) (bool, error) {
	list, err := j.client.BatchV1().Jobs(j.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	done := 0
	for i := range list.Items {
		s := &list.Items[i].Status
		if s.Failed > 0 || int(s.Succeeded) > j.size.each {
			return false, fmt.Errorf("job %s: %d succeeded and %d failed of %d", list.Items[i].Name, s.Succeeded, s.Failed, j.size.each)
		}
		for _, c := range s.Conditions {
			if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue && int(s.Succeeded) == j.size.each {
				done++
			}
		}
	}
	return done == j.size.count, nil
}

func (j *jobs) remove(ctx context.Context) error {
	background := metav1.DeletePropagationBackground
	return j.client.BatchV1().Jobs(j.namespace).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
}

func podsGone(ctx context.Context, c kubernetes.Interface, namespace string) (bool, error) {
	pods, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	return err == nil && len(pods.Items) == 0, err
}
