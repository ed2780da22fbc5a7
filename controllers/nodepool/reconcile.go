package nodepool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"orrery/api/nodes/v1alpha1"
	"orrery/controllers/nodepool/merge"
	noderecord "orrery/controllers/nodepool/record"
	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

type reconciler struct {
	client   *client.Client
	live     *client.Client
	recorder record.EventRecorder
	metrics  metrics
	nodes    cache.Store[*corev1.Node]
	classes  cache.Store[*nodev1.RuntimeClass]
	catalog  *catalog
	ledger   *ledger
	permits  *permits
	startup  *corev1.Taint // removed once a node is up to date; nil if there is none
	// rehearses is true in a dry run: finalizers are then never stored, so pools are treated as if they had theirs.
	rehearses bool

	wakeNode, wakePool *kit.Trigger[kit.Key]
}

// longestTrouble is how many bytes of a server error are reported.
const longestTrouble = 1024

// cacheLag is when a node is reconciled again if the server has one of its pools and the cache does not.
const cacheLag = time.Second

// reconcileNode makes a node what its pools specify, in one patch. It is the only writer of Nodes.
func (r *reconciler) reconcileNode(ctx context.Context, key kit.Key) (kit.Result, error) {
	node, ok := r.nodes.Get(key)
	if !ok {
		r.ledger.forget(key.Name)
		return kit.Done, nil
	}
	pools, open := r.catalog.pools()
	if !open {
		return kit.Done, nil // the pools are unknown: the kind is not served, or not listed yet
	}
	rec, err := recordOf(node)
	if err != nil {
		r.trouble(node, pools, err.Error())
		klog.FromContext(ctx).Info("Left a node alone whose record of pools cannot be read", "node", key.Name, "reason", err)
		return kit.Done, nil
	}
	later, err := r.findLost(ctx, node, rec, pools)
	if err != nil {
		return kit.Done, err
	}
	now := time.Now()
	if rest := r.ledger.resting(node.Name, now, func() string { return signature(pools) }); rest > 0 {
		return kit.After(rest), nil
	}
	v := r.judge(node, rec, pools, now)
	if v.now.Same() {
		r.trouble(node, pools, "")
	} else if err := r.write(ctx, node, pools, &v.now, now); err != nil {
		return kit.Done, err
	}
	return kit.Sooner(kit.After(later), kit.After(v.retry)), nil
}

// write patches a node with an outcome.
func (r *reconciler) write(ctx context.Context, node *corev1.Node, pools []*merge.Pool, out *merge.Outcome, now time.Time) error {
	data, err := patchOf(node, out)
	if err != nil {
		return fmt.Errorf("make the patch of node %s: %w", node.Name, err)
	}
	stored, err := client.PatchObject(ctx, r.client, node, client.MergePatch(data), client.Brief)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return client.IgnoreNotFound(err) // a newer version arrives by itself, and a conflict is retried
	case err != nil:
		// Not terminal: an admission policy refuses with the same status as the schema does, and may be removed soon.
		r.trouble(node, pools, shortened(err.Error(), longestTrouble))
		return fmt.Errorf("bring node %s to what its pools ask for: %w", node.Name, err)
	}
	r.metrics.writes.Inc()
	r.metrics.repaired(out.Drifted)
	klog.FromContext(ctx).V(2).Info("Changed a node as its pools ask", "node", node.Name, "changes", texts(out.Changes))
	if r.ledger.repaired(node.Name, out.Drifted, now) {
		klog.FromContext(ctx).Info("Somebody else changes keys of a node again and again; they are left alone for a while", "node", node.Name, "keys", out.Drifted)
		r.wakePools(node, pools)
	}
	if r.ledger.wrote(node, stored.ResourceVersion, signature(pools), now) {
		klog.FromContext(ctx).Info("A node does not come to rest; it is left alone for a while", "node", node.Name, "changes", texts(out.Changes))
		r.recorder.Event(node, corev1.EventTypeWarning, "NodePoolsRestless", "As NodePools ask, "+restless)
		r.trouble(node, pools, restless)
	} else {
		r.trouble(node, pools, "")
	}
	return nil
}

// restless is reported for a node that is written repeatedly although no pool changes: what one pool writes makes another
// match, or no longer match, and that undoes the first write.
const restless = "it is changed again and again: do pools select by labels that other pools write?"

// signature identifies what all pools specify.
func signature(pools []*merge.Pool) string {
	var b strings.Builder
	for _, p := range pools {
		fmt.Fprint(&b, p.UID, p.Hash, p.Priority, p.Deleting, p.Audit, p.Paused, p.Skip, ";")
	}
	return b.String()
}

// trouble remembers why a node cannot be written, and makes its pools report it.
func (r *reconciler) trouble(node *corev1.Node, pools []*merge.Pool, what string) {
	if r.ledger.note(node.Name, what) {
		r.wakePools(node, pools)
	}
}

// wakePools queues the pools of a node, to be counted again.
func (r *reconciler) wakePools(node *corev1.Node, pools []*merge.Pool) {
	for _, p := range pools {
		if p.Matches(node.Labels) {
			r.wakePool.AddAfter(kit.Key{Name: p.Name}, statusDelay)
		}
	}
}

// findLost asks the server for the pools that the node's record names and the cache does not have. A pool counts as gone
// only if the server says so. If the server has such a pool, later is when to reconcile the node again.
func (r *reconciler) findLost(ctx context.Context, node *corev1.Node, rec noderecord.Record, pools []*merge.Pool) (later time.Duration, err error) {
	for _, p := range rec.Pools {
		if knows(pools, p.UID) || r.ledger.isGone(p.UID) {
			continue
		}
		found, err := client.Get[metav1.PartialObjectMetadata](ctx, r.live, kit.Key{Name: p.Name}, client.Kind(v1alpha1.NodePoolKind))
		switch {
		case err == nil && found.UID == p.UID:
			later = cacheLag
		case err == nil, apierrors.IsNotFound(err) && !kindMissing(err):
			r.ledger.noteGone(p.UID)
		case kindMissing(err):
			later = cacheLag // nothing is known about a pool whose kind the server does not have
		default:
			return 0, fmt.Errorf("ask for NodePool %s, which node %s has a record of: %w", p.Name, node.Name, err)
		}
	}
	return later, nil
}

// kindMissing reports whether a call failed because the server does not serve the kind, which says nothing about the object.
func kindMissing(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func knows(pools []*merge.Pool, uid types.UID) bool {
	return slices.ContainsFunc(pools, func(p *merge.Pool) bool { return p.UID == uid })
}

func texts(changes []merge.Change) []string {
	out := make([]string, len(changes))
	for i, c := range changes {
		out[i] = c.String()
	}
	return out
}

// shortened truncates a text, and says so.
func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
