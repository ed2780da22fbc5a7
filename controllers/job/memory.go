package job

import (
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/kit"
)

// remembered is what earlier reconciles have found out about a Job that is not over. It belongs to one reconcile at a time.
// All of it may be lost: it saves calls and lists, and is built again from what the cluster stores.
type remembered struct {
	uid        types.UID
	generation int64     // of the spec when the Job was last looked at
	wrote      time.Time // when its status was last written
	more       bool      // the last reconcile left something to do
	refused    time.Time // when the server last refused to create pods; zero if it has accepted some since
	created    time.Time // when the server last accepted some
	seeded     bool      // past has been worked out
	past       history
}

// acted notes that a plan has been carried out, or why not.
func (r *remembered) acted(v *view, p plan, failure error) {
	r.generation, r.more = v.job.Generation, p.more && failure == nil
	switch {
	case len(p.create) == 0:
	case failure != nil:
		r.refused = time.Now()
	default:
		r.refused, r.created = time.Time{}, time.Now()
	}
}

// held returns for how long no more pods are to be created, because the last ones were refused or have left no trace in
// the status, as when a webhook gives them other labels. Pods that finish or are deleted do leave a trace.
func (r *remembered) held(now time.Time) time.Duration {
	last := r.refused
	if r.created.After(r.wrote) {
		last = r.created
	}
	return refusedPeriod - now.Sub(last)
}

// memory holds the records. It is safe for concurrent use.
type memory struct {
	mu sync.Mutex // guards of, and nothing is called while holding it
	of map[kit.Key]*remembered
}

func newMemory() *memory { return &memory{of: map[kit.Key]*remembered{}} }

// recall returns the record of a Job; it is empty if another Job had the name before.
func (m *memory) recall(job *batchv1.Job) *remembered {
	key := kit.KeyOf(job)
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of[key]
	if r == nil || r.uid != job.UID {
		r = &remembered{uid: job.UID}
		m.of[key] = r
	}
	return r
}

func (m *memory) forget(key kit.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, key)
}

// historyOf works out a Job's failures since its last success from those of its finished pods that are accounted for and
// still exist. If no pod has succeeded, the Job's own count is the better one: failed pods may have been deleted since.
func historyOf(job *batchv1.Job, pods []*corev1.Pod) history {
	listed := listedIn(&job.Status)
	var good, bad []*corev1.Pod
	for _, pod := range pods {
		l := listed[pod.UID]
		if l == unfinished {
			if l = fateOf(job, pod); tracked(pod) {
				continue // not accounted for yet
			}
		}
		switch l {
		case success:
			good = append(good, pod)
		case failure:
			bad = append(bad, pod)
		}
	}
	h := history{}.with(good, bad)
	if never := len(good) == 0 && job.Status.Succeeded == 0; never && h.failures > 0 {
		total := job.Status.Failed
		if u := job.Status.UncountedTerminatedPods; u != nil {
			total += int32(len(u.Failed))
		}
		h.failures = max(h.failures, total)
	}
	return h
}
