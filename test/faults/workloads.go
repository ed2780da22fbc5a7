package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"orrery/test/faults/checker"
)

// Annotations on pods that control the local cluster's kubelets.
const (
	startAfter     = "localcluster.orrery/start-after"
	runFor         = "localcluster.orrery/run-for"
	exitCode       = "localcluster.orrery/exit-code"
	terminateAfter = "localcluster.orrery/terminate-after"
)

// template describes pods that take a while to start and to terminate.
func template(app, image string, annotations map[string]string) corev1.PodTemplateSpec {
	if annotations == nil {
		annotations = map[string]string{startAfter: "300ms", terminateAfter: "400ms"}
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}, Annotations: annotations},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{
				Name: "c", Image: image,
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}},
			}},
		},
	}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func value(text string) *intstr.IntOrString { return new(intstr.Parse(text)) }

// newDeployment describes a Deployment; without a surge its strategy is Recreate.
func newDeployment(name string, n int32, surge, unavailable string) *appsv1.Deployment {
	strategy := appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	if surge != "" {
		strategy = appsv1.DeploymentStrategy{
			Type:          appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: value(surge), MaxUnavailable: value(unavailable)},
		}
	}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &n, Selector: selector(name), Template: template(name, "fake:1", nil), Strategy: strategy, RevisionHistoryLimit: new(int32(2)),
	}}
}

func newStatefulSet(name string, n int32, policy appsv1.PodManagementPolicyType) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: &n, Selector: selector(name), Template: template(name, "fake:1", nil), PodManagementPolicy: policy, RevisionHistoryLimit: new(int32(2)),
	}}
}

func newDaemonSet(name, surge, unavailable string) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DaemonSetSpec{
		Selector: selector(name), Template: template(name, "fake:1", nil), RevisionHistoryLimit: new(int32(2)),
		UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
			Type:          appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxSurge: value(surge), MaxUnavailable: value(unavailable)},
		},
	}}
}

// newBudget describes a budget over the pods of one app. spec is "min 3" or "max 40%".
func newBudget(app, kind, amount string) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector(app)}}
	if kind == "min" {
		b.Spec.MinAvailable = value(amount)
	} else {
		b.Spec.MaxUnavailable = value(amount)
	}
	return b
}

// onlyEvictions marks a budget whose pods are disrupted by nothing but evictions.
func onlyEvictions(b *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	b.Labels = map[string]string{checker.OnlyEvictions: "true"}
	return b
}

// jobSpec describes the work of a Job whose pods run for some time.
func jobSpec(app, runs string, parallelism, completions int32) batchv1.JobSpec {
	t := template(app, "fake:1", map[string]string{startAfter: "1s", runFor: runs, terminateAfter: "400ms"})
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	return batchv1.JobSpec{Parallelism: &parallelism, Completions: &completions, BackoffLimit: new(int32(100)), Template: t}
}

// randomJob describes one of the short-lived Jobs.
func randomJob(r *rand.Rand, number int) *batchv1.Job {
	p := int32(1 + r.IntN(4))
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("work-%d", number)}}
	j.Spec = jobSpec("work", "500ms", p, p+int32(r.IntN(5)))
	switch r.IntN(4) {
	case 0:
		j.Spec.CompletionMode = new(batchv1.IndexedCompletion)
	case 1:
		j.Spec.PodReplacementPolicy = new(batchv1.Failed)
	case 2:
		j.Spec.BackoffLimit = new(int32(r.IntN(2))) // some fail
	}
	if r.IntN(2) == 0 {
		j.Spec.TTLSecondsAfterFinished = new(int32(r.IntN(20)))
	}
	return j
}

// longest is how long the longest Jobs run.
const longest = 90 * time.Second

func newCronJob(name, schedule string, policy batchv1.ConcurrencyPolicy, runs string, limit int32) *batchv1.CronJob {
	return &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.CronJobSpec{
		Schedule: schedule, ConcurrencyPolicy: policy, SuccessfulJobsHistoryLimit: &limit, FailedJobsHistoryLimit: &limit,
		JobTemplate: batchv1.JobTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"runs": runs}}, Spec: jobSpec(name, runs, 1, 1)},
	}}
}
