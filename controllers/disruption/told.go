package disruption

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"orrery/kit"
)

// told remembers what was said of the pods of each budget. A pod that nobody manages, and is not ready either, changes no
// number of its budget, and whoever made it wants to know all the same.
type told struct {
	mu sync.Mutex // guards of
	of map[kit.Key]said
}

// said is what events tell of the pods of a budget.
type said struct {
	budget          types.UID
	none, unmanaged bool
}

// news notes what there is to say, and reports whether it was something else before. Of a budget that nothing is known of
// the one before has told.
func (t *told) news(budget kit.Key, now said) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, known := t.of[budget]
	if known && was == now {
		return false
	}
	if t.of == nil {
		t.of = map[kit.Key]said{}
	}
	t.of[budget] = now
	return known
}

func (t *told) forget(budget kit.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, budget)
}
