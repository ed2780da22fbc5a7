package disruption

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"orrery/kit"
)

// reports remembers what events have reported about the pods of each budget. A change of status is not enough to decide
// whether to report: a pod that has no controller and is not ready changes no number, but must be reported.
type reports struct {
	mu sync.Mutex // guards of
	of map[kit.Key]report
}

// report is what events say about the pods of a budget.
type report struct {
	budget          types.UID
	none, unmanaged bool
}

// changed records a report, and returns whether the one before was different. The first report of a process is not a
// change: its predecessor has published it.
func (r *reports) changed(budget kit.Key, now report) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, known := r.of[budget]
	if known && was == now {
		return false
	}
	if r.of == nil {
		r.of = map[kit.Key]report{}
	}
	r.of[budget] = now
	return known
}

func (r *reports) forget(budget kit.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, budget)
}
