package job

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orrery/controllers/internal/podctl"
)

// burst is how many pods one reconcile creates, deletes or counts at most, so that a big Job does not keep small ones
// waiting, and its status stays small.
const burst = 500

// plan is what is to become of a Job's pods.
type plan struct {
	remove []*corev1.Pod
	// surplus is whether what is removed is more than the Job wants, and does not count as failed.
	surplus bool
	create  []int // the index of each new pod; noIndex in a Job without
	// track are active pods that the Job keeps and that lack the finalizer, for example because a removal was interrupted
	// between its two calls. Without it their end would not be counted.
	track []*corev1.Pod
	more  bool          // there is more to do than one burst
	wait  time.Duration // until more pods can be created; 0 if none has to wait
}

// planOf decides what to create or delete. It never does both in one go: deletions come first. past are the failures of
// the Job so far.
func planOf(v *view, e ending, past history) plan {
	switch {
	case e.decided():
		return removing(pods(v.active), false)
	case v.job.DeletionTimestamp != nil:
		return plan{}
	case suspended(v.job):
		return removing(pods(v.active), true)
	}
	want := wanted(v)
	if extra := surplus(v, want); len(extra) > 0 {
		return removing(extra, true)
	}
	p := creating(v, want, past)
	p.track = untracked(v.active)
	return p
}

func untracked(members []member) (out []*corev1.Pod) {
	for _, m := range members {
		if !m.tracked {
			out = append(out, m.pod)
		}
	}
	return out
}

// creating plans the pods that are missing.
func creating(v *view, want int, past history) plan {
	missing := want - len(v.active)
	if replacesFailedOnly(v.job) {
		missing -= v.terminating
	}
	if missing <= 0 {
		return plan{}
	}
	if !perIndex(v.job) {
		if wait := past.wait(v.now); wait > 0 {
			return plan{wait: wait}
		}
	}
	p := plan{more: missing > burst}
	p.create = make([]int, min(missing, burst))
	for i := range p.create {
		p.create[i] = noIndex
	}
	if indexed(v.job) {
		p.create, p.wait = nextIndexes(v, len(p.create))
		p.more = p.more && len(p.create) > 0
	}
	return p
}

func removing(pods []*corev1.Pod, surplus bool) plan {
	n := min(len(pods), burst)
	return plan{remove: pods[:n], surplus: surplus, more: n < len(pods)}
}

// wanted returns how many pods should be active.
func wanted(v *view) int {
	parallelism := 1
	if p := v.job.Spec.Parallelism; p != nil {
		parallelism = int(*p)
	}
	n := v.job.Spec.Completions
	switch {
	case n != nil:
		return max(0, min(int(*n)-v.succeeded, parallelism))
	case v.succeeded > 0:
		return len(v.active) // they may end by themselves, and are not replaced
	}
	return parallelism
}

// surplus returns the active pods that have to go: those without an index of their own in an Indexed Job, and as many
// more as exceed what is wanted.
func surplus(v *view, want int) []*corev1.Pod {
	var out []*corev1.Pod
	rest := pods(v.active)
	if indexed(v.job) {
		out, rest = strays(v.active)
	}
	if extra := len(v.active) - want - len(out); extra > 0 {
		podctl.Ranking{}.Sort(rest)
		out = append(out, rest[:extra]...)
	}
	return out
}

// strays separates the pods that have no index or share one with a better pod (out) from the others (rest).
func strays(active []member) (out, rest []*corev1.Pod) {
	byIndex := slices.SortedFunc(slices.Values(active), func(a, b member) int { return cmp.Compare(a.index, b.index) })
	for len(byIndex) > 0 {
		same := 1
		for same < len(byIndex) && byIndex[same].index == byIndex[0].index {
			same++
		}
		group := pods(byIndex[:same])
		switch {
		case byIndex[0].index == noIndex:
			out = append(out, group...)
		default:
			podctl.Ranking{}.Sort(group)
			out = append(out, group[:same-1]...)
			rest = append(rest, group[same-1])
		}
		byIndex = byIndex[same:]
	}
	return out, rest
}

// nextIndexes takes the lowest n indexes that are neither done nor running. It returns those whose back-off is over, and
// how long the first of the others has to wait.
func nextIndexes(v *view, n int) (now []int, wait time.Duration) {
	taken := v.completed.Union(v.lost).Union(indexesOf(v.active))
	if replacesFailedOnly(v.job) {
		var going []member
		for _, m := range v.members {
			if podctl.Terminating(m.pod) {
				going = append(going, m)
			}
		}
		taken = taken.Union(indexesOf(going))
	}
	for _, index := range taken.Missing(n, int(*v.job.Spec.Completions)) {
		d := indexWait(v.retained[index], v.now)
		switch {
		case d <= 0:
			now = append(now, index)
		case wait == 0 || d < wait:
			wait = d
		}
	}
	return now, wait
}

// indexWait returns how long an index has to wait after the failure of a pod; nil is no failure.
func indexWait(pod *corev1.Pod, now time.Time) time.Duration {
	if pod == nil {
		return 0
	}
	return history{failures: failuresBefore(pod).all() + 1, last: finishTime(pod)}.wait(now)
}
