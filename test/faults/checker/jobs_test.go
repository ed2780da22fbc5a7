package checker

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// counted shows a Job with these counts.
func counted(w *world, j *batchv1.Job, succeeded, failed int32) {
	j.Status.Succeeded, j.Status.Failed = succeeded, failed
	w.see(j)
}

// played shows a Job of two completions, of whose three pods one fails, up to its last count.
func played(w *world) (*batchv1.Job, []*corev1.Pod) {
	j := newJob("j", 2, 2)
	w.see(j)
	pods := []*corev1.Pod{jobPod("a", j, ""), jobPod("b", j, ""), jobPod("c", j, "")}
	done := []*corev1.Pod{ended(pods[0], corev1.PodFailed), ended(pods[1], corev1.PodSucceeded), ended(pods[2], corev1.PodSucceeded)}
	w.see(pods[0], pods[1], done[0], pods[2], done[1])
	counted(w, j, 1, 1)
	w.see(done[2])
	counted(w, j, 2, 1)
	return j, done
}

func TestJobs(t *testing.T) {
	for _, tc := range []struct {
		name string
		play func(w *world, j *batchv1.Job, pods []*corev1.Pod)
		want []string
	}{
		{"as it should be", func(w *world, j *batchv1.Job, pods []*corev1.Pod) {
			w.see(released(pods[0]), released(pods[1]), released(pods[2]))
			endJob(j, batchv1.JobComplete)
			w.see(j)
		}, nil},
		{"a finalizer is left", func(w *world, j *batchv1.Job, pods []*corev1.Pod) {
			w.see(released(pods[0]), released(pods[1]))
			endJob(j, batchv1.JobComplete)
			w.see(j)
		}, []string{"finalizers"}},
		{"uncounted pods are left", func(w *world, j *batchv1.Job, pods []*corev1.Pod) {
			w.see(released(pods[0]), released(pods[1]), released(pods[2]))
			j.Status.Succeeded, j.Status.UncountedTerminatedPods = 1, &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"c"}}
			endJob(j, batchv1.JobComplete)
			w.see(j)
		}, []string{"counts fall", "counts differ", "uncounted"}},
		{"a success is counted twice", func(w *world, j *batchv1.Job, _ []*corev1.Pod) { counted(w, j, 3, 1) }, []string{"counts exceed"}},
		{"a failure is counted twice", func(w *world, j *batchv1.Job, _ []*corev1.Pod) {
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Failed: []types.UID{"a"}}
			w.see(j)
		}, []string{"counts exceed"}},
		{"a count falls", func(w *world, j *batchv1.Job, _ []*corev1.Pod) { counted(w, j, 2, 0) }, []string{"counts fall"}},
		{"a failure is lost", func(w *world, j *batchv1.Job, pods []*corev1.Pod) {
			p := jobPod("d", j, "")
			w.see(released(pods[0]), released(pods[1]), released(pods[2]), p)
			if got := w.found(); len(got) != 1 || got[0] != "completions" {
				w.c.violated("a third success was begun unseen", j, nil, "%v", got)
			}
			w.see(deleted(p), released(deleted(p)))
			w.gone(p)
			endJob(j, batchv1.JobComplete)
			w.see(j)
		}, []string{"counts differ"}},
		{"a success is deleted with the Job's failure", func(w *world, j *batchv1.Job, pods []*corev1.Pod) {
			w.see(released(pods[0]), released(pods[1]), deleted(pods[2]), released(deleted(pods[2])))
			if got := w.found(); len(got) > 0 {
				w.c.violated("before", j, nil, "%v", got)
			}
			j.Status.Failed = 2
			w.see(j)
			endJob(j, batchv1.JobFailed)
			j.Status.Succeeded = 2
			w.see(j)
		}, []string{"counts differ"}},
		{"it ends twice", func(w *world, j *batchv1.Job, pods []*corev1.Pod) {
			w.see(released(pods[0]), released(pods[1]), released(pods[2]))
			endJob(j, batchv1.JobComplete)
			w.see(j)
			j.Status.Conditions = nil
			w.see(j)
		}, []string{"end"}},
	} {
		w := newWorld()
		j, pods := played(w)
		w.expect(t, tc.name+", before")
		tc.play(w, j, pods)
		w.expect(t, tc.name, tc.want...)
	}
}

func TestJobsThatRunTooManyPods(t *testing.T) {
	w := newWorld()
	j := newJob("j", 2, 5)
	w.see(j, jobPod("a", j, ""), jobPod("b", j, ""), jobPod("c", j, ""))
	w.expect(t, "three at once", "parallelism")

	w = newWorld()
	j = newJob("j", 3, 3)
	j.Spec.CompletionMode = new(batchv1.IndexedCompletion)
	w.see(j, jobPod("a", j, "0"), jobPod("b", j, "0"))
	w.expect(t, "an index twice at once", "index")

	w = newWorld()
	w.see(j, ended(jobPod("a", j, "0"), corev1.PodSucceeded), jobPod("b", j, "0"))
	w.expect(t, "an index again", "index")

	w = newWorld()
	w.see(j, ended(jobPod("a", j, "0"), corev1.PodFailed), jobPod("b", j, "0"))
	w.expect(t, "an index after a failure")

	w = newWorld()
	w.see(j)
	endJob(j, batchv1.JobComplete)
	w.see(j)
	w.expect(t, "complete without pods", "completions")
}

func TestPodsThatAreDeletedCountAsTheJobAsks(t *testing.T) {
	for _, waits := range []bool{false, true} {
		w := newWorld()
		j := newJob("j", 1, 1)
		failed := int32(1)
		if waits {
			j.Spec.PodReplacementPolicy, failed = new(batchv1.Failed), 0
		}
		p := jobPod("a", j, "")
		w.see(j, p, deleted(p))
		if got := len(w.c.jobs[j.UID].failed); got != int(failed) {
			t.Errorf("waits=%t: %d failed, want %d", waits, got, failed)
		}
		w.see(ended(deleted(p), corev1.PodFailed))
		counted(w, j, 0, 1)
		w.expect(t, "deleted and failed")
	}
	w := newWorld()
	j := newJob("j", 1, 1)
	p := jobPod("a", j, "")
	w.see(j, p, released(p), deleted(released(p)))
	if len(w.c.jobs[j.UID].failed) != 0 {
		t.Error("a pod whose finalizer was taken off first has failed")
	}
}

func TestFinalizersThatNobodyTakesOff(t *testing.T) {
	w := newWorld()
	j := newJob("j", 1, 1)
	p := jobPod("a", j, "")
	w.see(j, p, deleted(p))
	w.gone(j)
	w.c.Disturbed(w.now.Add(finalizerPatience))
	w.pass(2 * finalizerPatience)
	w.expect(t, "in time")
	w.pass(2 * time.Second)
	w.expect(t, "never", "finalizers")
}

func newCronJob(p batchv1.ConcurrencyPolicy) *batchv1.CronJob {
	return &batchv1.CronJob{ObjectMeta: meta("nightly"), Spec: batchv1.CronJobSpec{ConcurrencyPolicy: p}}
}

// startedAt makes the Job of a slot, created some time after it.
func startedAt(w *world, cj *batchv1.CronJob, name string, slot time.Time, after time.Duration) *batchv1.Job {
	j := newJob(name, 1, 1)
	owned(j, cj)
	j.Annotations[batchv1.CronJobScheduledTimestampAnnotation] = slot.Format(time.RFC3339)
	j.CreationTimestamp = metav1.NewTime(slot.Add(after))
	return j
}

func TestCronJobs(t *testing.T) {
	slot := time.Unix(1_800_000_000, 0)
	w, cj := newWorld(), newCronJob(batchv1.ForbidConcurrent)
	first := startedAt(w, cj, "j1", slot, time.Second)
	w.see(cj, first, first)
	w.gone(first)
	w.see(startedAt(w, cj, "j2", slot.Add(time.Minute), 0))
	w.expect(t, "one after the other")
	w.see(startedAt(w, cj, "j3", slot.Add(2*time.Minute), 0))
	w.expect(t, "two at once", "concurrency")
	again := startedAt(w, cj, "j1", slot, time.Minute)
	again.UID = "again"
	w.see(again)
	w.expect(t, "a slot again", "slot twice")
	w.see(startedAt(w, cj, "j4", slot.Add(time.Hour), -time.Second))
	w.expect(t, "before its slot", "early")
	cj.Status.LastScheduleTime = &metav1.Time{Time: slot}
	w.see(cj)
	w.expect(t, "recorded")
	cj.Status.LastScheduleTime = &metav1.Time{Time: slot.Add(-time.Minute)}
	w.see(cj)
	w.expect(t, "back in time", "last start")

	w, cj = newWorld(), newCronJob(batchv1.AllowConcurrent)
	w.see(startedAt(w, cj, "j1", slot, 0), cj, startedAt(w, cj, "j2", slot.Add(time.Minute), 0))
	w.expect(t, "two at once are allowed")
	again = startedAt(w, cj, "j9", slot, 0)
	w.see(again)
	w.expect(t, "the slot of a Job that was listed first", "slot twice")
}

// TestAPodThatSucceedsAsItsNamespaceGoes has a pod deleted before it succeeds: its Job may have seen only the latter.
func TestAPodThatSucceedsAsItsNamespaceGoes(t *testing.T) {
	for name, tc := range map[string]struct {
		ends bool
		want []string
	}{
		"in a namespace that goes":  {true, nil},
		"in a namespace that stays": {false, []string{"counts exceed"}},
	} {
		w := newWorld()
		ns, _, _ := inNamespace(w)
		j := newJob("j", 1, 1)
		p := jobPod("jp", j, "")
		w.see(j, p)
		if tc.ends {
			leave(ns)
			w.see(ns)
		}
		p = deleted(p)
		w.see(p, ended(p, corev1.PodSucceeded))
		j.Status.Succeeded = 1
		w.see(j)
		w.expect(t, name, tc.want...)
	}
}
