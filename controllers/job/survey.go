package job

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/controllers/internal/podctl"
	"orrery/controllers/job/indexes"
)

// noIndex is the index of a pod that has none, or none that its Job has.
const noIndex = -1

// fate is how a pod ended, as its Job counts it.
type fate int

const (
	unfinished fate = iota
	success
	failure // has failed, or is being deleted and the Job counts that as a failure
)

// member is one pod of a Job that is not settled.
type member struct {
	pod     *corev1.Pod
	index   int
	tracked bool
	fate    fate
	// listed is the fate under which the status has the pod's UID among the uncounted; unfinished if it has not. It
	// stands, whatever becomes of the pod later.
	listed fate
}

// view is what the cache shows of a Job and its pods at one time, and what follows from it. The counts include what has
// finished and is not in the status yet.
type view struct {
	job     *batchv1.Job
	now     time.Time
	members []member
	active  []member

	ready, terminating int
	succeeded, failed  int
	newSucceeded       []*corev1.Pod // not in the status yet
	newFailed          []*corev1.Pod
	// counted are the failed pods that have been counted, if a condition that one of them gets may still end the Job.
	counted []*corev1.Pod

	// For Indexed Jobs only.
	completed indexes.Set
	lost      indexes.Set // failed for good; only Jobs with a limit per index have such
	// retained holds the last failed pod of each index that is to be tried again. It carries the number of failures over
	// to its successor, and has to stay until that exists.
	retained map[int]*corev1.Pod
	// closing is whether the namespace is being deleted: no pod can be created any more.
	closing bool
}

// survey looks at a Job with its claimed, unsettled pods.
func survey(job *batchv1.Job, pods []*corev1.Pod, now time.Time) *view {
	v := &view{job: job, now: now, members: make([]member, 0, len(pods))}
	listed := listedIn(&job.Status)
	v.failed = int(job.Status.Failed)
	v.succeeded = int(job.Status.Succeeded)
	for _, l := range listed {
		switch l {
		case success:
			v.succeeded++
		case failure:
			v.failed++
		}
	}
	for _, pod := range pods {
		m := member{pod: pod, index: indexOf(job, pod), tracked: tracked(pod), fate: fateOf(job, pod), listed: listed[pod.UID]}
		v.members = append(v.members, m)
		v.count(m)
	}
	if indexed(job) {
		v.countIndexes()
	}
	return v
}

// listedIn returns under what fate the status lists pods that are not in its counters yet.
func listedIn(status *batchv1.JobStatus) map[types.UID]fate {
	u := status.UncountedTerminatedPods
	if u == nil || len(u.Succeeded)+len(u.Failed) == 0 {
		return nil
	}
	out := make(map[types.UID]fate, len(u.Succeeded)+len(u.Failed))
	for _, uid := range u.Succeeded {
		out[uid] = success
	}
	for _, uid := range u.Failed {
		out[uid] = failure
	}
	return out
}

func fateOf(job *batchv1.Job, pod *corev1.Pod) fate {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return success
	case pod.Status.Phase == corev1.PodFailed, pod.DeletionTimestamp != nil && !replacesFailedOnly(job):
		return failure
	}
	return unfinished
}

// count adds one pod to the counts.
func (v *view) count(m member) {
	switch {
	case podctl.Active(m.pod):
		v.active = append(v.active, m)
		if podctl.Ready(m.pod) {
			v.ready++
		}
	case podctl.Terminating(m.pod):
		v.terminating++
	}
	if !m.tracked || m.listed != unfinished || !v.countable(m) {
		return
	}
	switch m.fate {
	case success:
		v.newSucceeded = append(v.newSucceeded, m.pod)
		v.succeeded++
	case failure:
		v.newFailed = append(v.newFailed, m.pod)
		if judge(v.job.Spec.PodFailurePolicy, m.pod).counts() {
			v.failed++
		}
	}
}

// countable reports whether the end of a pod counts: in an Indexed Job only that of a pod with an index does.
func (v *view) countable(m member) bool { return m.index != noIndex || !indexed(v.job) }

// countIndexes works out which indexes are done. An index is either completed or lost, never both: what the status says
// stands, and of what is new a success wins.
func (v *view) countIndexes() {
	limit := int(deref(v.job.Spec.Completions))
	wasLost := indexes.Parse(deref(v.job.Status.FailedIndexes), limit)
	var completed, lost []int
	for _, m := range v.members {
		if m.tracked && m.index != noIndex && m.fate == success && m.listed != failure && !wasLost.Has(m.index) {
			completed = append(completed, m.index)
		}
	}
	v.completed = indexes.Parse(v.job.Status.CompletedIndexes, limit).Union(indexes.Of(completed))
	v.succeeded = v.completed.Len()
	if !perIndex(v.job) {
		return
	}
	for _, m := range v.members {
		if m.tracked && m.index != noIndex && m.fate == failure && losesIndex(v.job, m.pod) && !v.completed.Has(m.index) {
			lost = append(lost, m.index)
		}
	}
	v.lost = wasLost.Union(indexes.Of(lost))
	v.retain()
}

// losesIndex reports whether the failure of a pod was the last that its index may have.
func losesIndex(job *batchv1.Job, pod *corev1.Pod) bool {
	j := judge(job.Spec.PodFailurePolicy, pod)
	if j.action == batchv1.PodFailurePolicyActionFailIndex {
		return true
	}
	return j.counts() && failuresBefore(pod).counted >= *job.Spec.BackoffLimitPerIndex
}

// retain picks, for each index without an active pod that is to be tried again, the pod that failed last.
func (v *view) retain() {
	busy := map[int]bool{}
	for _, m := range v.active {
		busy[m.index] = true
	}
	v.retained = map[int]*corev1.Pod{}
	for _, m := range v.members {
		if !m.tracked || m.fate != failure || m.index == noIndex || busy[m.index] || v.completed.Has(m.index) || v.lost.Has(m.index) {
			continue
		}
		if first := v.retained[m.index]; first == nil || failedLater(m.pod, first) {
			v.retained[m.index] = m.pod
		}
	}
}

func failedLater(a, b *corev1.Pod) bool {
	if c := cmp.Compare(failuresBefore(a).all(), failuresBefore(b).all()); c != 0 {
		return c > 0
	}
	return finishTime(a).After(finishTime(b))
}

// indexFailures are the failures of an index, as its next pod carries them in annotations.
type indexFailures struct {
	counted, ignored int32
}

func (f indexFailures) all() int32 { return f.counted + f.ignored }

// failuresBefore returns the failures of the pod's index before that of the pod itself.
func failuresBefore(pod *corev1.Pod) indexFailures {
	return indexFailures{
		counted: number(pod.Annotations[batchv1.JobIndexFailureCountAnnotation]),
		ignored: number(pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation]),
	}
}

// failuresWith returns the failures of an index once that of a pod, which may be nil, has been added.
func failuresWith(job *batchv1.Job, pod *corev1.Pod) (f indexFailures) {
	if pod == nil {
		return f
	}
	if f = failuresBefore(pod); judge(job.Spec.PodFailurePolicy, pod).counts() {
		f.counted++
	} else {
		f.ignored++
	}
	return f
}

// number reads a count from an annotation; anything else is 0.
func number(text string) int32 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return int32(max(0, min(n, math.MaxInt32-1)))
}

// indexOf returns the completion index of a pod, or noIndex if it has none below the Job's number of completions.
func indexOf(job *batchv1.Job, pod *corev1.Pod) int {
	text, ok := pod.Annotations[batchv1.JobCompletionIndexAnnotation]
	if !ok || !indexed(job) {
		return noIndex
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= int(deref(job.Spec.Completions)) {
		return noIndex
	}
	return n
}

// indexesOf returns the set of the indexes of pods that have one.
func indexesOf(members []member) indexes.Set {
	all := make([]int, 0, len(members))
	for _, m := range members {
		if m.index != noIndex {
			all = append(all, m.index)
		}
	}
	return indexes.Of(all)
}

// pods returns the pods of members.
func pods(members []member) []*corev1.Pod {
	out := make([]*corev1.Pod, 0, len(members))
	for _, m := range members {
		out = append(out, m.pod)
	}
	return slices.Clip(out)
}
