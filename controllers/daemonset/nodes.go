package daemonset

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"orrery/kit"
)

// nodeChanges remembers, of each node that has changed, what it was like since it was last looked at, nil for a time when
// it did not exist. A DaemonSet may have been reconciled at any of these times. It holds nodes only until they are looked
// at again.
type nodeChanges struct {
	mu     sync.Mutex // guards before
	before map[string][]*corev1.Node
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
		c.before = map[string][]*corev1.Node{}
	}
	c.before[node.Name] = append(c.before[node.Name], old)
	return []string{node.Name}
}

// take returns what a node was like before each of its changes.
func (c *nodeChanges) take(name string) []*corev1.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.before[name]
	delete(c.before, name)
	return old
}

// reconcileNode calls for the DaemonSets that want something else with a node than before.
func (r *reconciler) reconcileNode(_ context.Context, name string) (kit.Result, error) {
	before := r.changes.take(name)
	// The node is read after the change was taken: a change that comes in between leads here once more.
	now, _ := r.nodes.Get(kit.Key{Name: name})
	for _, set := range r.sets.List("") {
		where := r.placements.of(set)
		wants := where.about(now)
		if slices.ContainsFunc(before, func(old *corev1.Node) bool { return where.about(old) != wants }) {
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
