package nodepool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"orrery/api/nodes/v1alpha1"
	"orrery/controllers/nodepool/record"
	"orrery/kit"
	"orrery/kit/client"
)

// statusDelay batches the changes of many nodes into one count.
const statusDelay = 500 * time.Millisecond

// reconcilePool does everything for a NodePool except writing its nodes: finalizer, rollout, RuntimeClass, status, cleanup.
func (r *reconciler) reconcilePool(ctx context.Context, key kit.Key) (kit.Result, error) {
	k, open := r.catalog.get(key.Name)
	if !open {
		return kit.Done, nil
	}
	if r.ledger.sweep(key.Name, versionOf(k)) {
		r.wakeNodesOf(key.Name, k)
	}
	switch {
	case k == nil:
		return kit.Done, nil
	case k.pool.Deleting:
		return r.finish(ctx, k)
	case !slices.Contains(k.api.Finalizers, v1alpha1.CleanupFinalizer):
		if err := r.setFinalizer(ctx, k, true); err != nil || !r.rehearses {
			return kit.Done, err
		}
	}
	pools, _ := r.catalog.pools()
	now := time.Now()
	c := r.count(k, pools, now)
	t := takeTurns(c.candidates, k.pool.Rollout, now)
	for _, node := range r.permits.give(k.pool, t.granted) {
		r.wakeNode.Add(kit.Key{Name: node})
	}
	class, err := r.reconcileClass(ctx, k)
	if err != nil {
		class.failed = err.Error()
	}
	if serr := r.writeStatus(ctx, k, statusOf(k, c, t, class, now)); serr != nil {
		return kit.Done, serr
	}
	return kit.After(t.next), err
}

// versionOf identifies the parts of a pool that its nodes depend on; empty for a pool that is gone.
func versionOf(k *known) string {
	if k == nil {
		return ""
	}
	return fmt.Sprint(k.api.UID, k.api.Generation, k.pool.Deleting, k.pool.Paused)
}

// wakeNodesOf queues the nodes that belong to a pool or have a record of one of that name.
func (r *reconciler) wakeNodesOf(name string, k *known) {
	for _, node := range r.nodes.List("") {
		if k != nil && k.pool.Matches(node.Labels) || remembers(node, name) {
			r.wakeNode.Add(kit.KeyOf(node))
		}
	}
}

// remembers reports whether a node has a record of a pool of that name, or one that cannot be read.
func remembers(node *corev1.Node, name string) bool {
	rec, err := recordOf(node)
	return err != nil || slices.ContainsFunc(rec.Pools, func(p record.Pool) bool { return p.Name == name })
}

// finish cleans up after a pool that is being deleted. The finalizer is removed once no node on the server has a record of
// the pool, whatever the pool selects by then.
func (r *reconciler) finish(ctx context.Context, k *known) (kit.Result, error) {
	if !slices.Contains(k.api.Finalizers, v1alpha1.CleanupFinalizer) {
		return kit.Done, nil
	}
	left := carriers(r.nodes.List(""), k)
	if len(left) == 0 {
		fresh, err := client.List[metav1.PartialObjectMetadata](ctx, r.live, client.Kind(corev1.SchemeGroupVersion.WithKind("Node")))
		if err != nil {
			return kit.Done, fmt.Errorf("list nodes with a record of NodePool %s: %w", k.api.Name, err)
		}
		left = carriers(fresh, k)
	}
	if len(left) > 0 {
		for _, name := range left {
			r.wakeNode.Add(kit.Key{Name: name})
		}
		now := time.Now()
		return kit.After(cleanupPoll), r.writeStatus(ctx, k, leavingStatus(k, left, r.ledger.trouble(left[0]), now))
	}
	if err := r.deleteClass(ctx, k, ""); err != nil {
		return kit.Done, err
	}
	r.permits.drop(k.api.UID)
	klog.FromContext(ctx).Info("No node has a record of the deleted NodePool any more", "nodePool", k.api.Name)
	return kit.Done, r.setFinalizer(ctx, k, false)
}

// cleanupPoll is how often a pool that is being deleted checks whether its nodes have been cleaned up.
const cleanupPoll = 5 * time.Second

// carriers returns the sorted names of the nodes whose record names a pool. A malformed record counts if it may be about the
// pool.
func carriers[N client.Object](nodes []N, k *known) []string {
	var out []string
	for _, n := range nodes {
		text := n.GetAnnotations()[v1alpha1.RecordAnnotation]
		if text == "" {
			continue
		}
		rec, err := record.Parse(text)
		if err == nil && rec.Find(k.api.UID) != nil || err != nil && mayName(text, k) {
			out = append(out, n.GetName())
		}
	}
	slices.Sort(out)
	return out
}

// mayName reports whether a malformed record may be about a pool.
func mayName(text string, k *known) bool {
	return strings.Contains(text, string(k.api.UID)) || strings.Contains(text, strconv.Quote(k.api.Name))
}

// setFinalizer adds or removes the finalizer, with the resourceVersion in the cache as a precondition.
func (r *reconciler) setFinalizer(ctx context.Context, k *known, on bool) error {
	list := slices.DeleteFunc(slices.Clone(k.api.Finalizers), func(f string) bool { return f == v1alpha1.CleanupFinalizer })
	if on {
		list = append(list, v1alpha1.CleanupFinalizer)
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": list, "resourceVersion": k.raw.GetResourceVersion(), "uid": k.api.UID,
	}})
	if err != nil {
		return err
	}
	if _, err := client.PatchObject(ctx, r.client, k.raw, client.MergePatch(data)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("set the finalizer of NodePool %s: %w", k.api.Name, err))
	}
	return nil
}
