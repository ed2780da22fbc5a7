package checker

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// job is what is known of a Job, even after it is removed.
type job struct {
	*batchv1.Job
	succeeded, failed map[types.UID]bool // the pods that did
	// either are pods that succeeded and were deleted all the same: the Job failed, and with it all pods that its
	// controller knew to run, so that these may count as failed.
	either      map[types.UID]bool
	indexes     map[string]bool // indexes with a pod that succeeded
	parallelism int32           // the most that was ever asked for
	ended, gone bool
	endedAt     time.Time
}

func (c *Checker) onJob(o *batchv1.Job, gone bool) {
	j := c.jobs[o.UID]
	if j == nil {
		j = &job{Job: o, succeeded: map[types.UID]bool{}, failed: map[types.UID]bool{}, either: map[types.UID]bool{}, indexes: map[string]bool{}}
		c.jobs[o.UID] = j
		// A list may have shown its pods first.
		for _, p := range c.podsOf(o.UID, exists) {
			c.onJobPod(j, p, false)
		}
		c.onStart(o)
	}
	was := j.Job
	j.Job = o
	if gone {
		j.gone, j.endedAt = true, c.now
		return
	}
	if p := o.Spec.Parallelism; p != nil {
		j.parallelism = max(j.parallelism, *p)
	}
	c.checkCounts(j, was)
	if end := jobEnd(o); end != "" && !j.ended {
		j.ended, j.endedAt = true, c.now
		c.checkEnd(j)
	} else if end == "" && j.ended {
		c.violated("end", o, nil, "the Job had ended, and no longer has")
	}
	c.checkJobPods(j)
	c.checkConcurrency(o)
}

func jobEnd(o *batchv1.Job) batchv1.JobConditionType {
	for _, cond := range o.Status.Conditions {
		if (cond.Type == batchv1.JobComplete || cond.Type == batchv1.JobFailed) && cond.Status == corev1.ConditionTrue {
			return cond.Type
		}
	}
	return ""
}

func tracked(p *corev1.Pod) bool {
	for _, f := range p.Finalizers {
		if f == batchv1.JobTrackingFinalizer {
			return true
		}
	}
	return false
}

// onJobPod records how a pod ended. A pod that is deleted while it runs has failed, unless the Job waits for its end. A pod
// whose finalizer was removed before its end was surplus, and does not count.
func (c *Checker) onJobPod(j *job, p *corev1.Pod, isNew bool) {
	index := p.Annotations[batchv1.JobCompletionIndexAnnotation]
	if isNew && index != "" && j.indexes[index] {
		c.violated("index", j.Job, c.podsOf(j.UID, exists), "pod %s is for index %s, which has succeeded", p.Name, index)
	}
	waits := j.Spec.PodReplacementPolicy != nil && *j.Spec.PodReplacementPolicy == batchv1.Failed
	switch {
	case j.succeeded[p.UID] && tracked(p) && p.DeletionTimestamp != nil:
		j.either[p.UID] = true
	case j.succeeded[p.UID] || j.failed[p.UID]:
	case p.Status.Phase == corev1.PodSucceeded && tracked(p):
		j.succeeded[p.UID] = true
		if index != "" {
			j.indexes[index] = true
		}
	case tracked(p) && (p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil && !waits):
		j.failed[p.UID] = true
	}
	if !j.gone {
		c.checkJobPods(j)
	}
}

// checkJobPods checks that no more pods run than desired.
func (c *Checker) checkJobPods(j *job) {
	if j.gone || j.DeletionTimestamp != nil {
		return
	}
	pods := c.podsOf(j.UID, active)
	if len(pods) > int(j.parallelism) {
		c.violated("parallelism", j.Job, pods, "%d pods, at most %d may be", len(pods), j.parallelism)
	}
	if j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion {
		seen := map[string]bool{}
		for _, p := range pods {
			index := p.Annotations[batchv1.JobCompletionIndexAnnotation]
			if seen[index] {
				c.violated("index", j.Job, pods, "two pods are for index %s", index)
			}
			seen[index] = true
		}
		return
	}
	if n := j.Spec.Completions; n != nil && len(pods)+len(j.succeeded) > int(*n) {
		c.violated("completions", j.Job, pods, "%d pods run and %d have succeeded, where %d are wanted", len(pods), len(j.succeeded), *n)
	}
}

// checkCounts compares the numbers in the status with the earlier ones and with what happened.
func (c *Checker) checkCounts(j *job, was *batchv1.Job) {
	if c.ending(j.Namespace) {
		return // its pods are deleted, and one that succeeds then is what it was first seen to be
	}
	now, before := j.Status, was.Status
	if now.Succeeded < before.Succeeded || now.Failed < before.Failed {
		c.violated("counts fall", j.Job, nil, "succeeded %d and failed %d, before %d and %d", now.Succeeded, now.Failed, before.Succeeded, before.Failed)
	}
	good, bad := int(now.Succeeded), int(now.Failed)
	if u := now.UncountedTerminatedPods; u != nil {
		good, bad = good+len(u.Succeeded), bad+len(u.Failed)
	}
	if j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion {
		good = int(now.Succeeded) // of an index that is counted the pod may still be among the uncounted
	}
	if good > len(j.succeeded) || bad > len(j.failed)+len(j.either) {
		c.violated("counts exceed", j.Job, c.podsOf(j.UID, exists), "the status tells of %d that succeeded and %d that failed, and %d and %d did", good, bad, len(j.succeeded), len(j.failed))
	}
}

// checkEnd checks a Job that has just ended.
func (c *Checker) checkEnd(j *job) {
	if c.ending(j.Namespace) {
		return
	}
	s := j.Status
	good := len(j.succeeded)
	if j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion {
		good = len(j.indexes)
	}
	unclear := 0
	if jobEnd(j.Job) == batchv1.JobFailed {
		unclear = len(j.either)
	}
	if n := int(s.Failed) - len(j.failed); n < 0 || n > unclear || int(s.Succeeded) != good-n {
		c.violated("counts differ", j.Job, c.podsOf(j.UID, exists), "it ended with %d that succeeded and %d that failed, and %d and %d did", s.Succeeded, s.Failed, good, len(j.failed))
	}
	if u := s.UncountedTerminatedPods; u != nil && len(u.Succeeded)+len(u.Failed) > 0 {
		c.violated("uncounted", j.Job, c.podsOf(j.UID, exists), "it ended with uncounted pods")
	}
	if left := c.podsOf(j.UID, tracked); len(left) > 0 {
		c.violated("finalizers", j.Job, left, "it ended, and %d pods have the tracking finalizer", len(left))
	}
	if n := j.Spec.Completions; jobEnd(j.Job) == batchv1.JobComplete && n != nil && j.Spec.SuccessPolicy == nil && good < int(*n) {
		c.violated("completions", j.Job, nil, "it is complete with %d of %d", good, *n)
	}
}

// finalizerPatience is how long the pods of a removed Job may keep the finalizer while there are no faults.
const finalizerPatience = time.Minute

// checkLeftFinalizers looks for pods whose finalizer will never be removed.
func (c *Checker) checkLeftFinalizers(j *job) {
	if !j.ended && !j.gone {
		return
	}
	since := j.endedAt
	if since.Before(c.calm) {
		since = c.calm
	}
	if left := c.podsOf(j.UID, tracked); len(left) > 0 && c.now.Sub(since) > finalizerPatience {
		c.violated("finalizers", j.Job, left, "%d pods still have the tracking finalizer", len(left))
	}
}

// cronJob is what is known of a CronJob.
type cronJob struct {
	*batchv1.CronJob
	slots map[string]types.UID // the Job of each slot that was run
	gone  bool
}

func (c *Checker) onCronJob(o *batchv1.CronJob, gone bool) {
	cj := c.cronJobs[o.UID]
	if cj == nil {
		cj = &cronJob{CronJob: o, slots: map[string]types.UID{}}
		c.cronJobs[o.UID] = cj
		for _, j := range c.jobs { // seen before it, by a list
			c.onStart(j.Job)
		}
	}
	if was, is := cj.Status.LastScheduleTime, o.Status.LastScheduleTime; was != nil && !gone && (is == nil || is.Before(was)) {
		c.violated("last start", o, nil, "the last start was %s and is %s", was, is)
	}
	cj.CronJob, cj.gone = o, gone
}

// onStart records the slot of a Job that a CronJob has started.
func (c *Checker) onStart(o *batchv1.Job) {
	slot, ref := o.Annotations[batchv1.CronJobScheduledTimestampAnnotation], metav1.GetControllerOf(o)
	if slot == "" || ref == nil || c.cronJobs[ref.UID] == nil {
		return
	}
	cj := c.cronJobs[ref.UID]
	if at, err := time.Parse(time.RFC3339, slot); err != nil || o.CreationTimestamp.Time.Before(at) {
		c.violated("early", o, nil, "started at %s for the slot %s", o.CreationTimestamp, slot)
	}
	if uid, ok := cj.slots[slot]; ok && uid != o.UID {
		c.violated("slot twice", o, nil, "the slot %s of %s was run before\n    %s", slot, cj.Name, c.historyOf(uid))
	}
	cj.slots[slot] = o.UID
}

// checkConcurrency checks that the Jobs of a CronJob run one at a time if its concurrency policy requires it.
func (c *Checker) checkConcurrency(o *batchv1.Job) {
	ref := metav1.GetControllerOf(o)
	if ref == nil || c.cronJobs[ref.UID] == nil || c.cronJobs[ref.UID].Spec.ConcurrencyPolicy == batchv1.AllowConcurrent {
		return
	}
	var running []string
	for _, j := range c.jobs {
		if r := metav1.GetControllerOf(j.Job); !j.gone && !j.ended && j.DeletionTimestamp == nil && r != nil && r.UID == ref.UID {
			running = append(running, j.Name)
		}
	}
	if len(running) > 1 {
		c.violated("concurrency", c.cronJobs[ref.UID].CronJob, nil, "%v run at once", running)
	}
}
