package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/index"
	"orrery/controllers/internal/podctl"
	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

const (
	// podPeriod is how long changes of pods are gathered before a reconcile.
	podPeriod = 100 * time.Millisecond
	// replacePeriod is the least time between two replacements of a Job's pods.
	replacePeriod = 250 * time.Millisecond
	// statusPeriod is the least time between two writes of a status that differ in numbers only.
	statusPeriod = time.Second
	// refusedPeriod is the least time between two attempts to create pods while the server refuses them or they come to
	// nothing. If nothing changes, a Job whose pods are refused is first retried after that time, and then less and less
	// often.
	refusedPeriod = time.Second
	// soon is the delay before a reconcile that continues the work of one that was cut off at a burst.
	soon = time.Millisecond
)

// jobKind names Jobs in owner references.
var jobKind = batchv1.SchemeGroupVersion.WithKind("Job")

type reconciler struct {
	jobs       cache.Store[*batchv1.Job]
	pods       cache.Store[*corev1.Pod]
	namespaces cache.Store[*corev1.Namespace]

	bySelector   cache.Index[*batchv1.Job]
	byController cache.Index[*corev1.Pod]
	unsettled    cache.Index[*corev1.Pod]
	orphans      cache.Index[*corev1.Pod]

	control  podctl.Control
	client   *client.Client
	live     *client.Client
	recorder record.EventRecorder
	memory   *memory
	metrics  metrics
	log      klog.Logger

	clearsStartTime bool // of a Job when it is suspended
}

// Reconcile brings a Job's pods and status closer to what the Job asks for.
func (r *reconciler) Reconcile(ctx context.Context, key kit.Key) (kit.Result, error) {
	job, ok := r.jobs.Get(key)
	if !ok || finished(job) {
		r.memory.forget(key)
		return kit.Done, nil
	}
	log := klog.FromContext(ctx)
	if by := externalManager(job); by != "" {
		log.V(2).Info("Left alone: another controller looks after the job", "job", key, "controller", by)
		return kit.Done, nil
	}
	if !knownMode(job) {
		r.recorder.Event(job, corev1.EventTypeWarning, "UnknownCompletionMode", "Skipped Job sync because completion mode is unknown")
		return kit.Done, nil
	}
	start := time.Now()
	action, res, err := r.look(ctx, job)
	r.metrics.looked(job, action, err, time.Since(start))
	return res, err
}

// look is one reconcile of a Job that this controller manages. The action is its label in metrics.
func (r *reconciler) look(ctx context.Context, job *batchv1.Job) (action string, res kit.Result, err error) {
	pods, complete, err := r.claim(ctx, job)
	if err != nil || !complete {
		return actionReconciling, kit.Done, err
	}
	rec := r.memory.recall(job)
	v := survey(job, pods, time.Now())
	v.counted, v.closing = r.countedFailures(job), podctl.Closing(r.namespaces, job.Namespace)
	e := endingOf(v)
	p := planOf(v, e, r.history(rec, v))
	if wait := pace(v, e, p, rec); wait > 0 {
		return actionNone, kit.After(wait), nil
	}
	action = actionOf(v, e, p)
	c, scaling := r.scale(ctx, v, p)
	rec.acted(v, p, scaling)
	if !e.decided() && completes(v, c.active(v)) {
		e = completed()
	}
	res, err = r.account(ctx, v, e, c, rec)
	if scaling != nil {
		err = errors.Join(kit.RetryFrom(refusedPeriod, fmt.Errorf("scale job %s: %w", klog.KObj(job), scaling)), err)
	}
	if err != nil {
		p.more = false // continue with the back-off; the deadline is still observed
	}
	return action, kit.Sooner(res, nextReconcile(v, e, p)), err
}

// countedFailures returns the failed pods that have been counted, if the pod failure policy may still end the Job because
// of one of them: the condition that says why a pod failed can come after the failure.
func (r *reconciler) countedFailures(job *batchv1.Job) (out []*corev1.Pod) {
	if !canFailJob(job.Spec.PodFailurePolicy) {
		return nil
	}
	for _, pod := range index.Owned(r.pods, r.byController, job) {
		if pod.Status.Phase == corev1.PodFailed && !tracked(pod) {
			out = append(out, pod)
		}
	}
	return out
}

// history returns the failures of a Job, those that this look has found included.
func (r *reconciler) history(rec *remembered, v *view) history {
	if perIndex(v.job) {
		return history{} // each index has its own
	}
	if !rec.seeded {
		if v.job.Status.StartTime != nil {
			rec.past = historyOf(v.job, index.Owned(r.pods, r.byController, v.job))
		}
		rec.seeded = true
	}
	return rec.past.with(v.newSucceeded, v.newFailed)
}

// pace returns how long a reconcile has to wait, so that a Job whose pods change all the time costs few writes. What users
// wait for is never delayed: the start, the end, and the changes that they make.
func pace(v *view, e ending, p plan, rec *remembered) time.Duration {
	since, held := v.now.Sub(rec.wrote), rec.held(v.now)
	switch {
	case len(p.create) > 0 && held > 0 && !rec.more && rec.generation == v.job.Generation && !turns(v):
		return held
	case rec.wrote.IsZero(), rec.more, p.more, rec.generation != v.job.Generation, len(p.remove)+len(p.track) > 0, v.job.DeletionTimestamp != nil,
		!e.decided() && completes(v, len(v.active)), e.decided() && (!e.declared || v.terminating == 0), turns(v):
		return 0
	case len(p.create) > 0:
		return replacePeriod - since
	}
	return statusPeriod - since
}

// turns reports whether the Job has been suspended or resumed and its status does not say so.
func turns(v *view) bool {
	return (isTrue(v.job, batchv1.JobSuspended) != nil) != suspended(v.job)
}

// nextReconcile asks for the next reconcile that is due without a change of the Job or a pod.
func nextReconcile(v *view, e ending, p plan) kit.Result {
	next := kit.After(p.wait)
	if p.more {
		next = kit.After(soon)
	}
	if left, ok := deadline(v); ok && !e.decided() {
		next = kit.Sooner(next, kit.After(max(left, soon)))
	}
	return next
}

// actionOf returns the label in metrics of what a reconcile does.
func actionOf(v *view, e ending, p plan) string {
	switch {
	case e.decided(), v.job.DeletionTimestamp != nil:
		return actionReconciling
	case len(p.remove) > 0, suspended(v.job):
		return actionDeleted
	case len(p.create) > 0, p.wait > 0:
		return actionCreated
	}
	return actionTracking
}
