package job

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/client"
)

// account accounts for finished pods and writes the status. The process may die after any of its steps: first the status
// lists the UIDs of the pods, then their finalizers are removed, then the status counts them.
func (r *reconciler) account(ctx context.Context, v *view, e ending, c change, rec *remembered) (kit.Result, error) {
	quiet := v.now.Sub(rec.wrote) >= statusPeriod
	status, turned := statusOf(v, e, c, r.clearsStartTime)
	t := take(v, e, c, &status)
	over := len(t.free) == 0 && !t.more && finish(&status, e, v.now)
	job, err := r.store(ctx, v.job, status, rec)
	if err != nil {
		return kit.Done, err
	}
	r.announce(job, turned)
	rec.past = rec.past.with(t.succeeded, t.failed)
	r.metrics.handled(t.actions)
	if len(t.free) > 0 {
		if err := r.untrackAll(ctx, t.free); err != nil {
			return kit.Done, fmt.Errorf("free finished pods of job %s: %w", klog.KObj(job), err)
		}
		gone := uidsOf(t.free)
		settle(&status, func(uid types.UID) bool { return gone[uid] })
		over = !t.more && finish(&status, e, v.now)
		if !over && (t.more || !quiet) {
			// The next reconcile counts them too, together with others.
			return r.again(t, rec), nil
		}
		if job, err = r.store(ctx, job, status, rec); err != nil {
			return kit.Done, err
		}
	}
	if over {
		r.end(ctx, job, e)
	}
	return kit.Done, nil
}

// again asks for the reconcile that counts the pods that this one has freed.
func (r *reconciler) again(t tally, rec *remembered) kit.Result {
	if t.more {
		rec.more = true
		return kit.After(soon)
	}
	return kit.After(statusPeriod)
}

// store writes a status unless the Job has it, and returns the Job as stored.
func (r *reconciler) store(ctx context.Context, job *batchv1.Job, status batchv1.JobStatus, rec *remembered) (*batchv1.Job, error) {
	if sameStatus(&job.Status, &status) {
		return job, nil
	}
	stored, err := client.UpdateStatus(ctx, r.client, &batchv1.Job{ObjectMeta: job.ObjectMeta, Status: status}, client.Brief)
	switch {
	case apierrors.IsNotFound(err):
		return job, nil // it is gone, as the watch will show; its pods still have to lose their finalizers
	case err != nil:
		return nil, fmt.Errorf("update status of job %s: %w", klog.KObj(job), err)
	}
	klog.FromContext(ctx).V(4).Info("Updated status", "job", klog.KObj(job), "active", status.Active,
		"succeeded", status.Succeeded, "failed", status.Failed, "uncounted", uncounted(&status))
	r.metrics.counted(job, &job.Status, &status)
	rec.wrote = time.Now()
	next := *job
	next.Status, next.ResourceVersion = status, stored.ResourceVersion
	return &next, nil
}

// announce publishes that the Job has been suspended or resumed.
func (r *reconciler) announce(job *batchv1.Job, turned string) {
	switch turned {
	case reasonSuspended:
		r.recorder.Event(job, corev1.EventTypeNormal, turned, "Job suspended")
	case reasonResumed:
		r.recorder.Event(job, corev1.EventTypeNormal, turned, "Job resumed")
	}
}

// end publishes how the Job has ended.
func (r *reconciler) end(ctx context.Context, job *batchv1.Job, e ending) {
	klog.FromContext(ctx).V(2).Info("Job finished", "job", klog.KObj(job), "condition", e.kind, "reason", e.reason)
	r.metrics.ended(job, e)
	r.memory.forget(kit.KeyOf(job))
	if e.kind == batchv1.JobFailed {
		r.recorder.Event(job, corev1.EventTypeWarning, e.reason, e.message)
		return
	}
	if n := job.Spec.Completions; n != nil && job.Status.Succeeded > *n && !indexed(job) {
		r.recorder.Event(job, corev1.EventTypeWarning, "TooManySucceededPods", "Too many succeeded pods running after completion count reached")
	}
	r.recorder.Event(job, corev1.EventTypeNormal, "Completed", "Job completed")
}

func (r *reconciler) untrackAll(ctx context.Context, pods []*corev1.Pod) error {
	return eachPod(ctx, pods, func(ctx context.Context, i int) error { return r.untrack(ctx, pods[i], "") })
}

// untrack removes the finalizer from a pod; version is the resourceVersion that the pod must have, or "" for any. It
// succeeds if the pod is gone.
func (r *reconciler) untrack(ctx context.Context, pod *corev1.Pod, version string) error {
	if !tracked(pod) {
		return nil
	}
	var p finalizerPatch
	p.Metadata.Version, p.Metadata.Remove = version, []string{batchv1.JobTrackingFinalizer}
	if err := r.patch(ctx, pod, p); err != nil {
		return fmt.Errorf("remove finalizer of pod %s: %w", klog.KObj(pod), err)
	}
	return nil
}

// track puts the finalizer back on a pod. It fails if the pod has changed since it was read.
func (r *reconciler) track(ctx context.Context, pod *corev1.Pod) error {
	var p finalizerPatch
	p.Metadata.Version, p.Metadata.Add = pod.ResourceVersion, []string{batchv1.JobTrackingFinalizer}
	if err := r.patch(ctx, pod, p); err != nil {
		return fmt.Errorf("add finalizer to pod %s: %w", klog.KObj(pod), err)
	}
	return nil
}

// finalizerPatch is a strategic merge patch. It holds the pod's UID, so that a successor of the same name is never hit.
type finalizerPatch struct {
	Metadata struct {
		UID     types.UID `json:"uid"`
		Version string    `json:"resourceVersion,omitempty"`
		Add     []string  `json:"finalizers,omitempty"`
		Remove  []string  `json:"$deleteFromPrimitiveList/finalizers,omitempty"`
	} `json:"metadata"`
}

func (r *reconciler) patch(ctx context.Context, pod *corev1.Pod, p finalizerPatch) error {
	p.Metadata.UID = pod.UID
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = client.PatchObject(ctx, r.client, pod, client.StrategicPatch(data), client.Brief)
	return client.IgnoreNotFound(err)
}

func uidsOf(pods []*corev1.Pod) map[types.UID]bool {
	out := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		out[pod.UID] = true
	}
	return out
}
