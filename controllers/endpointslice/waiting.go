package endpointslice

import (
	"sync"

	"orrery/kit"
)

// waiting holds the Services that left out a pod because its node does not exist, by node. They are tried again with
// back-off anyhow; this makes the pod appear as soon as its node does.
type waiting struct {
	mu     sync.Mutex // guards byNode
	byNode map[string]map[kit.Key]struct{}
}

func newWaiting() *waiting { return &waiting{byNode: map[string]map[kit.Key]struct{}{}} }

func (w *waiting) add(node string, svc kit.Key) {
	if node == "" {
		return // not a node that will come
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byNode[node] == nil {
		w.byNode[node] = map[kit.Key]struct{}{}
	}
	w.byNode[node][svc] = struct{}{}
}

// take returns the Services that wait for a node and forgets them.
func (w *waiting) take(node string) []kit.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	var keys []kit.Key
	for k := range w.byNode[node] {
		keys = append(keys, k)
	}
	delete(w.byNode, node)
	return keys
}
