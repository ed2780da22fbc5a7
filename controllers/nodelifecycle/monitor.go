package nodelifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/node/topology"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/client"
)

// all is the one key of the heartbeat loop.
type all struct{}

// excludeLabel keeps a node out of the count of its zone.
const excludeLabel = "node.kubernetes.io/exclude-disruption"

// verdict is the result of one check of a node.
type verdict struct {
	node     *corev1.Node
	status   corev1.ConditionStatus // of its ready condition now; empty if it has none or could not be judged
	judged   bool
	unsure   bool // the write of the verdict failed, but may have been stored
	justLost bool // this check has found that it has become silent
	spent    time.Duration
}

// monitor checks the heartbeats of all nodes once.
func (r *reconciler) monitor(ctx context.Context, _ all) (kit.Result, error) {
	start := time.Now()
	defer func() { r.metrics.allNodes.Observe(time.Since(start).Seconds()) }()
	if r.staleFor != nil && !r.leases.Informer().Seen(*r.staleFor) {
		klog.FromContext(ctx).Info("The cache of leases is behind; no node is judged until it has caught up", "lease", r.staleFor.Key)
		return kit.Done, nil
	}
	r.staleFor = nil
	nodes := r.nodes.List("")
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	r.register(ctx, nodes)
	verdicts, stale := r.judgeAll(ctx, nodes, start)
	if stale != nil {
		r.staleFor = stale
		return kit.Done, nil
	}
	// This comes before any node is enqueued for a taint: the rates of the zones have to fit their present states.
	for _, d := range r.zones.settle(verdicts, r.metrics) {
		klog.FromContext(ctx).Info("Zone is in another state", "zone", d.zone, "state", d.state, "evictionsPerSecond", d.rate)
	}
	errs := []error{r.act(ctx, verdicts)}
	switch r.zones.takeTransition() {
	case enteredDisruption:
		klog.FromContext(ctx).Info("No node anywhere is ready: nothing is evicted any more")
		r.sparing = true
	case leftDisruption:
		r.sparing = false
		klog.FromContext(ctx).Info("Some nodes are ready again: silence is counted anew")
		for _, h := range r.health {
			h.seen = time.Now()
		}
	}
	if r.sparing {
		err := r.spare(ctx, nodes)
		r.sparing = err != nil // nodes that still have the taint are tried again the next time
		errs = append(errs, err)
	}
	return kit.Done, kit.Terminal(errors.Join(errs...)) // the next period is the next try
}

// register notes nodes that have come and gone.
func (r *reconciler) register(ctx context.Context, nodes []*corev1.Node) {
	here := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		here[n.Name] = true
		r.zones.ensure(topology.GetZoneKey(n), r.metrics)
		if r.known[n.Name] == nil {
			r.event(n, corev1.EventTypeNormal, "RegisteredNode", fmt.Sprintf("Node %s event: Registered Node %s in Controller", n.Name, n.Name))
			// The previous leader may have ended after the verdict and before it marked the pods. The kubelet of a node that
			// comes later, and says itself that it is not ready, knows its pods.
			r.retry[n.Name] = !r.checked
		}
		r.known[n.Name] = n
	}
	for name, n := range r.known {
		if here[name] {
			continue
		}
		r.event(n, corev1.EventTypeNormal, "RemovingNode", fmt.Sprintf("Node %s event: Removing Node %s from Controller", name, name))
		klog.FromContext(ctx).V(1).Info("Node is gone", "node", name)
		delete(r.known, name)
		delete(r.health, name)
		delete(r.retry, name)
		r.zones.dequeue(name)
	}
	r.checked = true
}

// judgeAll finds out which nodes are alive. The only live reads are those of the leases of nodes that seem silent. If
// one of these is newer than the cache, no node is judged: stale is what the cache has to show first.
func (r *reconciler) judgeAll(ctx context.Context, nodes []*corev1.Node, now time.Time) (verdicts []verdict, stale *client.Write) {
	verdicts = make([]verdict, len(nodes))
	var silent []int
	for i, n := range nodes {
		lease, _ := r.leases.Get(kit.Key{Namespace: corev1.NamespaceNodeLease, Name: n.Name})
		h := r.health[n.Name].observe(n, lease, now)
		r.health[n.Name] = h
		ready := condition(n, corev1.NodeReady)
		verdicts[i] = verdict{node: n, judged: true}
		grace := r.options.startupGrace
		if ready != nil {
			grace, verdicts[i].status = r.options.gracePeriod, ready.Status
		}
		if h.silentFor(grace, now) {
			silent = append(silent, i)
			verdicts[i].judged = false // until the server has been asked
		}
	}
	behind := make([]*client.Write, len(silent))
	_ = kit.Batch(ctx, len(silent), nodeWorkers, func(ctx context.Context, i int) error {
		v := &verdicts[silent[i]]
		behind[i] = r.confirm(ctx, v, r.health[v.node.Name].lease)
		return nil
	})
	for _, w := range behind {
		if w != nil {
			return nil, w
		}
	}
	_ = kit.Batch(ctx, len(silent), nodeWorkers, func(ctx context.Context, i int) error {
		if v := &verdicts[silent[i]]; v.judged {
			r.giveUp(ctx, v)
		}
		return nil
	})
	return verdicts, nil
}

// confirm asks the server for the lease of a node that seems silent. A node whose lease cannot be read is not judged.
func (r *reconciler) confirm(ctx context.Context, v *verdict, known string) (behind *client.Write) {
	if !r.breaker {
		v.judged = true
		return nil
	}
	key := kit.Key{Namespace: corev1.NamespaceNodeLease, Name: v.node.Name}
	lease, err := client.Get[coordinationv1.Lease](ctx, r.live, key)
	switch {
	case err == nil && lease.ResourceVersion != known:
		return &client.Write{GVK: r.leases.GVK(), Key: key, UID: lease.UID, ResourceVersion: lease.ResourceVersion}
	case err != nil && !apierrors.IsNotFound(err):
		klog.FromContext(ctx).Error(err, "A node seems silent, but its lease cannot be read: it is not judged", "node", klog.KObj(v.node))
	default:
		v.judged = true
	}
	return nil
}

// giveUp sets the conditions of a silent node to Unknown.
func (r *reconciler) giveUp(ctx context.Context, v *verdict) {
	start := time.Now()
	defer func() { v.spent = time.Since(start) }()
	changed := unknownConditions(v.node, metav1.NewTime(start))
	if !slices.ContainsFunc(changed, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady }) {
		v.status = corev1.ConditionUnknown
		return
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": v.node.ResourceVersion, "uid": v.node.UID},
		"status":   conditionsPatch(v.node, changed),
	})
	var updated *corev1.Node
	if err == nil {
		updated, err = client.PatchObject(ctx, r.client, v.node, client.StrategicPatch(patch), client.Status)
	}
	if err != nil {
		// A conflict may be the node's own sign of life, and any other error says nothing about the node: the next check
		// decides. If the write was stored nevertheless, that check finds a lost node whose pods nobody has marked.
		v.judged, v.unsure = false, true
		klog.FromContext(ctx).V(2).Info("The status of a silent node could not be written; no pod is evicted", "node", klog.KObj(v.node), "err", err)
		return
	}
	klog.FromContext(ctx).Info("Node has stopped reporting", "node", klog.KObj(v.node), "conditions", len(changed))
	v.justLost = v.status == corev1.ConditionTrue
	v.node, v.status = updated, corev1.ConditionUnknown
}

// act follows the verdicts: it taints nodes, publishes events, and marks the pods of nodes that have just been lost.
func (r *reconciler) act(ctx context.Context, verdicts []verdict) error {
	again := make([]bool, len(verdicts))
	err := kit.Batch(ctx, len(verdicts), nodeWorkers, func(ctx context.Context, i int) error {
		v, start := verdicts[i], time.Now()
		defer func() { r.metrics.oneNode.Observe((v.spent + time.Since(start)).Seconds()) }()
		if !v.judged || v.status == "" {
			again[i] = !v.judged && (r.retry[v.node.Name] || v.unsure)
			return nil
		}
		err := r.followVerdict(ctx, v)
		if v.justLost {
			r.event(v.node, corev1.EventTypeNormal, "NodeNotReady", fmt.Sprintf("Node %s status is now: NodeNotReady", v.node.Name))
		}
		if v.justLost || r.retry[v.node.Name] && v.status != corev1.ConditionTrue {
			if marked := r.markPods(ctx, v.node.Name); marked != nil {
				again[i] = true
				err = errors.Join(err, marked)
			}
		}
		return err
	})
	for i, v := range verdicts {
		if again[i] {
			r.retry[v.node.Name] = true
		} else {
			delete(r.retry, v.node.Name)
		}
	}
	return err
}

// followVerdict makes a node's NoExecute taints follow its state: they are removed at once when it is alive, replaced by
// each other at once, and added when it is the node's turn in its zone.
func (r *reconciler) followVerdict(ctx context.Context, v verdict) error {
	key := lostTaint(v.status)
	tainted := hasNoExecute(v.node, corev1.TaintNodeNotReady) || hasNoExecute(v.node, corev1.TaintNodeUnreachable)
	switch {
	case key == "":
		r.zones.dequeue(v.node.Name)
		if !tainted {
			return nil
		}
	case !tainted:
		r.zones.enqueue(v.node)
		return nil
	}
	_, err := r.setLost(ctx, v.node, key)
	return err
}

// setLost makes the NoExecute taint of that key the only one of the two that a node has, or removes both if key is empty.
// If someone else changes the node meanwhile it is read again. If it is no longer lost in that way, because it has shown a
// sign of life or is another node of the same name, lost is false and nothing is written.
func (r *reconciler) setLost(ctx context.Context, node *corev1.Node, key string) (lost bool, err error) {
	const tries = 4
	for range tries {
		taints := withLost(node, key, time.Now())
		if sameTaints(taints, node.Spec.Taints) {
			return true, nil
		}
		err := r.patchNode(ctx, node, taints, nil)
		if err == nil {
			klog.FromContext(ctx).Info("Changed NoExecute taints of node", "node", klog.KObj(node), "taints", taintTexts(taints))
			return true, nil
		}
		if !apierrors.IsConflict(err) {
			return false, fmt.Errorf("change NoExecute taints of node %s: %w", node.Name, err)
		}
		if node, err = client.Get[corev1.Node](ctx, r.live, kit.KeyOf(node)); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		if key != "" && lostBy(node) != key {
			return false, nil
		}
	}
	return false, fmt.Errorf("change NoExecute taints of node %s: it changed %d times meanwhile", node.Name, tries)
}

// spare removes the NoExecute taints from all nodes: if no node is ready, the control plane is taken to be cut off.
func (r *reconciler) spare(ctx context.Context, nodes []*corev1.Node) error {
	return kit.Batch(ctx, len(nodes), nodeWorkers, func(ctx context.Context, i int) error {
		node, ok := r.nodes.Get(kit.KeyOf(nodes[i]))
		if !ok {
			return nil
		}
		r.zones.dequeue(node.Name)
		_, err := r.setLost(ctx, node, "")
		return err
	})
}

// event publishes an event of a node. The reference has the form that users know: it has no namespace.
func (r *reconciler) event(node *corev1.Node, kind, reason, message string) {
	r.recorder.Event(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}, kind, reason, message)
}
