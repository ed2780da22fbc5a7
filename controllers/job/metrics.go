package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	compmetrics "k8s.io/component-base/metrics"

	"orrery/controllers/internal/skips"
	"orrery/controllers/job/indexes"
)

// Label values of the metrics.
const (
	actionNone        = ""            // the look was put off, and is not counted
	actionReconciling = "reconciling" // the Job is ending or being deleted, or could not be looked at
	actionTracking    = "tracking"    // nothing was created or deleted
	actionCreated     = "pods_created"
	actionDeleted     = "pods_deleted"

	succeeded = "succeeded"
	failed    = "failed"

	createNew       = "new"
	createReplacing = "recreate_terminating_or_failed"
	createFailed    = "recreate_failed"

	limitGlobal   = "global"
	limitPerIndex = "perIndex"
)

type metrics struct {
	duration   *compmetrics.HistogramVec
	syncs      *compmetrics.CounterVec
	finished   *compmetrics.CounterVec
	external   *compmetrics.CounterVec
	podsEnded  *compmetrics.CounterVec
	byPolicy   *compmetrics.CounterVec
	unreleased *compmetrics.CounterVec
	indexes    *compmetrics.CounterVec
	created    *compmetrics.CounterVec
	skips      skips.Counter
}

func counter(name, help string, level compmetrics.StabilityLevel, labels ...string) *compmetrics.CounterVec {
	return compmetrics.NewCounterVec(&compmetrics.CounterOpts{
		Subsystem: "job_controller", Name: name, Help: help, StabilityLevel: level,
	}, labels)
}

func newMetrics() metrics {
	const stable, beta, alpha = compmetrics.STABLE, compmetrics.BETA, compmetrics.ALPHA
	return metrics{
		duration: compmetrics.NewHistogramVec(&compmetrics.HistogramOpts{
			Subsystem: "job_controller", Name: "job_sync_duration_seconds", StabilityLevel: stable,
			Help: "Duration of one reconcile of a Job.", Buckets: compmetrics.ExponentialBuckets(0.004, 2, 15),
		}, []string{"completion_mode", "result", "action"}),
		syncs: counter("job_syncs_total", "Reconciles of Jobs.", stable, "completion_mode", "result", "action"),
		finished: counter("jobs_finished_total", "Jobs that have finished, and why.", stable,
			"completion_mode", "result", "reason"),
		external: counter("jobs_by_external_controller_total", "Jobs that another controller manages.", alpha, "controller_name"),
		podsEnded: counter("job_pods_finished_total", "Pods that have finished and been counted.", stable,
			"completion_mode", "result"),
		byPolicy: counter("pod_failures_handled_by_failure_policy_total",
			"Failed pods that a rule of their Job's pod failure policy applied to, by the rule's action.", beta, "action"),
		unreleased: counter("terminated_pods_tracking_finalizer_total",
			"Finished pods that gained (add) or lost (delete) the finalizer batch.kubernetes.io/job-tracking. A growing difference means that pods are not counted.",
			beta, "event"),
		indexes: counter("job_finished_indexes_total", "Indexes that have finished.", alpha, "status", "backoffLimit"),
		created: counter("job_pods_creation_total", "Attempts to create a pod, by reason and outcome.", alpha, "reason", "status"),
		skips:   skips.New("job_controller", "Job"),
	}
}

// publish registers the metrics, those of few labels at zero.
func (m metrics) publish(register func(...compmetrics.Registerable)) {
	register(m.duration, m.syncs, m.finished, m.external, m.podsEnded, m.byPolicy, m.unreleased, m.indexes, m.created, m.skips)
	for _, result := range []string{succeeded, failed} {
		for _, mode := range []batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion} {
			m.podsEnded.WithLabelValues(string(mode), result)
		}
		for _, limit := range []string{limitGlobal, limitPerIndex} {
			m.indexes.WithLabelValues(result, limit)
		}
		for _, reason := range []string{createNew, createReplacing, createFailed} {
			m.created.WithLabelValues(reason, result)
		}
	}
	for _, event := range []string{"add", "delete"} {
		m.unreleased.WithLabelValues(event)
	}
	m.skips.Start(corev1.Resource("pods"), batchv1.Resource("jobs"))
}

// watched is a filter that lets all pass: it counts new Jobs of other controllers.
func (m metrics) watched(old, job *batchv1.Job) bool {
	if old == nil && job != nil {
		if by := externalManager(job); by != "" {
			m.external.WithLabelValues(by).Inc()
		}
	}
	return true
}

// podChanged counts finished pods that get or lose the finalizer. Either side may be nil.
func (m metrics) podChanged(old, pod *corev1.Pod) {
	switch was, is := awaitsCount(old), awaitsCount(pod); {
	case is && !was:
		m.unreleased.WithLabelValues("add").Inc()
	case was && !is:
		m.unreleased.WithLabelValues("delete").Inc()
	}
}

func (m metrics) looked(job *batchv1.Job, action string, err error, took time.Duration) {
	if action == actionNone {
		return
	}
	result := "success"
	if err != nil {
		result = "error"
	}
	m.duration.WithLabelValues(mode(job), result, action).Observe(took.Seconds())
	m.syncs.WithLabelValues(mode(job), result, action).Inc()
}

// counted tells how the counts have grown with a new status.
func (m metrics) counted(job *batchv1.Job, old, status *batchv1.JobStatus) {
	grown := int(status.Succeeded - old.Succeeded)
	if indexed(job) {
		// Indexes beyond the present number of completions were counted when there were more.
		grown = grownBy(job, old.CompletedIndexes, status.CompletedIndexes)
		limit := limitGlobal
		if perIndex(job) {
			limit = limitPerIndex
			m.indexes.WithLabelValues(failed, limit).Add(float64(grownBy(job, deref(old.FailedIndexes), deref(status.FailedIndexes))))
		}
		m.indexes.WithLabelValues(succeeded, limit).Add(float64(grown))
	}
	m.podsEnded.WithLabelValues(mode(job), succeeded).Add(float64(max(0, grown)))
	m.podsEnded.WithLabelValues(mode(job), failed).Add(float64(max(0, status.Failed-old.Failed)))
}

func grownBy(job *batchv1.Job, old, now string) int {
	if old == now {
		return 0
	}
	limit := int(deref(job.Spec.Completions))
	return max(0, indexes.Parse(now, limit).Len()-indexes.Parse(old, limit).Len())
}

func (m metrics) handled(actions map[batchv1.PodFailurePolicyAction]int) {
	for action, n := range actions {
		m.byPolicy.WithLabelValues(string(action)).Add(float64(n))
	}
}

func (m metrics) ended(job *batchv1.Job, e ending) {
	result := succeeded
	if e.kind == batchv1.JobFailed {
		result = failed
	}
	m.finished.WithLabelValues(mode(job), result, e.reason).Inc()
}

// creations tells of the pods made and of the attempts that failed.
func (m metrics) creations(v *view, made, lost int) {
	reason := createNew
	switch {
	case v.failed > 0 && replacesFailedOnly(v.job):
		reason = createFailed
	case v.failed > 0 || v.terminating > 0:
		reason = createReplacing
	}
	m.created.WithLabelValues(reason, succeeded).Add(float64(made))
	m.created.WithLabelValues(reason, failed).Add(float64(lost))
}
