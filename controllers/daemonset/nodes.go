package daemonset

import (
	"context"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"orrery/kit"
)

// nodeChanges remembers, of each node that has changed, what it was like when it was last looked at. It holds nodes
// only until that is done again.
type nodeChanges struct {
	mu     sync.Mutex // guards before
	before map[string]*corev1.Node
}

// note returns the key of a node if what decides about pods has changed: its labels and its taints.
func (c *nodeChanges) note(old, new *corev1.Node) []string {
	node := new
	switch {
	case new == nil:
		node = old
	case old != nil && maps.Equal(old.Labels, new.Labels) && sameTaints(old.Spec.Taints, new.Spec.Taints):
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.before == nil {
		c.before = map[string]*corev1.Node{}
	}
	if _, pending := c.before[node.Name]; !pending {
		c.before[node.Name] = old
	}
	return []string{node.Name}
}

// take returns what a node was like before its changes; nil if it did not exist.
func (c *nodeChanges) take(name string) *corev1.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.before[name]
	delete(c.before, name)
	return old
}

// reconcileNode calls for the DaemonSets that want something else with a node than before.
func (r *reconciler) reconcileNode(_ context.Context, name string) (kit.Result, error) {
	old := r.changes.take(name)
	// The node is read after the change was taken: a change that comes in between leads here once more.
	now, _ := r.nodes.Get(kit.Key{Name: name})
	for _, set := range r.sets.List("") {
		if where := r.placements.of(set); where.about(old) != where.about(now) {
			r.wake.Add(kit.KeyOf(set))
		}
	}
	return kit.Done, nil
}

// about is judge for a node that may not exist.
func (p *placement) about(node *corev1.Node) verdict {
	if node == nil {
		return verdict{}
	}
	return p.judge(node)
}
