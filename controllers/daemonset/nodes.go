package daemonset

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"orrery/kit"
)

// nodeChanges holds the earlier versions of each node that has changed and is not processed yet, nil for a time when the
// node did not exist. All versions are needed: a DaemonSet may have been reconciled with any of them.
type nodeChanges struct {
	mu     sync.Mutex // guards before
	before map[string][]*corev1.Node
}

// note returns the key of a node if the fields that placement depends on have changed: its labels and its taints.
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

// take returns, and forgets, the versions of a node before each of its changes.
func (c *nodeChanges) take(name string) []*corev1.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.before[name]
	delete(c.before, name)
	return old
}

// reconcileNode requeues the DaemonSets whose verdict on a node has changed.
func (r *reconciler) reconcileNode(_ context.Context, name string) (kit.Result, error) {
	before := r.changes.take(name)
	// The node is read after its changes are taken: a change in between queues the node again.
	now, _ := r.nodes.Get(kit.Key{Name: name})
	for _, set := range r.sets.List("") {
		where := r.placements.of(set)
		wants := where.verdictOn(now)
		if slices.ContainsFunc(before, func(old *corev1.Node) bool { return where.verdictOn(old) != wants }) {
			r.wake.Add(kit.KeyOf(set))
		}
	}
	return kit.Done, nil
}

// verdictOn is judge for a node that may be nil.
func (p *placement) verdictOn(node *corev1.Node) verdict {
	if node == nil {
		return verdict{}
	}
	return p.judge(node)
}
