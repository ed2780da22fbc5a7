package job

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tally is what one reconcile accounts for.
type tally struct {
	// free are the pods whose finalizer goes once the status is stored.
	free []*corev1.Pod
	// succeeded and failed are those of them that were not accounted for before.
	succeeded, failed []*corev1.Pod
	actions           map[batchv1.PodFailurePolicyAction]int
	more              bool // there are more pods than one burst
}

// take accounts for the pods of a Job that have ended, or whose Job has: it lists their UIDs in the status and plans to
// free them. Pods of an Indexed Job that succeeded need not be listed, as their index cannot be counted twice.
func take(v *view, e ending, c change, s *batchv1.JobStatus) tally {
	t := tally{actions: map[batchv1.PodFailurePolicyAction]int{}}
	for _, known := range []bool{true, false} { // what is listed already makes room in the list
		for _, m := range v.members {
			if known != (m.listed != unfinished) || !freed(v, e, c, m) {
				continue
			}
			if len(t.free) >= burst || !known && uncounted(s) >= burst {
				t.more = true
				return t
			}
			t.free = append(t.free, m.pod)
			if !known {
				t.list(v, e, m, s)
			}
		}
	}
	return t
}

// list adds a pod to the uncounted ones.
func (t *tally) list(v *view, e ending, m member, s *batchv1.JobStatus) {
	switch {
	case !v.countable(m):
	case m.fate == success:
		t.succeeded = append(t.succeeded, m.pod)
		if !indexed(v.job) {
			s.UncountedTerminatedPods.Succeeded = append(s.UncountedTerminatedPods.Succeeded, m.pod.UID)
		}
	case m.fate == failure || e.kind == batchv1.JobFailed: // a failed Job takes its running pods with it
		t.failed = append(t.failed, m.pod)
		j := judge(v.job.Spec.PodFailurePolicy, m.pod)
		if j.action != "" {
			t.actions[j.action]++
		}
		if j.counts() {
			s.UncountedTerminatedPods.Failed = append(s.UncountedTerminatedPods.Failed, m.pod.UID)
		}
	}
}

// freed reports whether a pod need not be kept any longer.
func freed(v *view, e ending, c change, m member) bool {
	switch {
	case !m.tracked:
		return false
	case v.job.DeletionTimestamp != nil:
		return true
	case e.decided(): // unless it could not be deleted yet
		return m.fate != unfinished || m.pod.DeletionTimestamp != nil || c.removed[m.pod.UID]
	case v.retained[m.index] == m.pod && !v.closing: // it would wait for a successor for ever, and the namespace for it
		return false
	}
	return m.fate != unfinished || m.listed != unfinished
}

// trackedUIDs returns the pods that carry the finalizer.
func (v *view) trackedUIDs() map[types.UID]bool {
	out := make(map[types.UID]bool, len(v.members))
	for _, m := range v.members {
		if m.tracked {
			out[m.pod.UID] = true
		}
	}
	return out
}
