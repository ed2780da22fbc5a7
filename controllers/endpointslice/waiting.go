package endpointslice

import (
	"maps"
	"slices"
	"sync"

	"orrery/kit"
)

// waiting holds, by node, the Services that left out a pod because its node does not exist. They are also retried with
// backoff; this adds the pod as soon as its node appears.
type waiting struct {
	mu        sync.Mutex // guards the fields below
	byNode    map[string]map[kit.Key]struct{}
	byService map[kit.Key][]string // the reverse of byNode
}

func newWaiting() *waiting {
	return &waiting{byNode: map[string]map[kit.Key]struct{}{}, byService: map[kit.Key][]string{}}
}

// set replaces the nodes that a Service waits for.
func (w *waiting) set(svc kit.Key, nodes []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, node := range w.byService[svc] {
		delete(w.byNode[node], svc)
		if len(w.byNode[node]) == 0 {
			delete(w.byNode, node)
		}
	}
	if len(nodes) == 0 {
		delete(w.byService, svc)
		return
	}
	w.byService[svc] = nodes
	for _, node := range nodes {
		if w.byNode[node] == nil {
			w.byNode[node] = map[kit.Key]struct{}{}
		}
		w.byNode[node][svc] = struct{}{}
	}
}

// take returns the Services that wait for a node which has appeared, and removes them.
func (w *waiting) take(node string) []kit.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := slices.Collect(maps.Keys(w.byNode[node]))
	delete(w.byNode, node)
	return keys
}
