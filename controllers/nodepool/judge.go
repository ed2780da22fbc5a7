package nodepool

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/api/nodes/v1alpha1"
	"orrery/controllers/nodepool/merge"
	"orrery/controllers/nodepool/record"
)

// verdict is what is to be done about a node.
type verdict struct {
	rec record.Record
	// full is what the node becomes in the end, now what it may become at once: without what waits for its turn.
	full, now merge.Outcome
	// retry is when a key that is left alone may be set again; 0 if there is none.
	retry time.Duration
}

// judge decides about a node. It asks nobody and changes nothing. The error says that the node's record cannot be read;
// then nothing may be done.
func (r *reconciler) judge(node *corev1.Node, pools []*merge.Pool, now time.Time) (verdict, error) {
	var v verdict
	var err error
	if v.rec, err = record.Parse(node.Annotations[v1alpha1.RecordAnnotation]); err != nil {
		return v, err
	}
	in := r.input(node, pools, now)
	held, retry := r.ledger.heldOff(node.Name, now)
	if held != nil {
		in.HeldOff = func(k record.Key) bool { return held[k] }
		v.retry = retry
	}
	state := record.StateOf(node)
	v.full = merge.Next(state, v.rec, in)
	v.now = v.full
	if waiting := r.waiting(node, &v, pools, now); waiting != nil {
		in.Waiting = func(uid types.UID) bool { return waiting[uid] }
		v.now = merge.Next(state, v.rec, in)
	}
	return v, nil
}

func (r *reconciler) input(node *corev1.Node, pools []*merge.Pool, now time.Time) merge.Input {
	return merge.Input{Node: node.UID, Pools: pools, Gone: r.ledger.isGone, Startup: r.startup, Now: now}
}

// waiting returns the pools that have to wait for their turn on a node; nil if there is none.
func (r *reconciler) waiting(node *corev1.Node, v *verdict, pools []*merge.Pool, now time.Time) map[types.UID]bool {
	if len(v.full.Changes) == 0 || fresh(node, &v.rec, now) {
		return nil
	}
	var out map[types.UID]bool
	for _, p := range pools {
		if bounded(p.Rollout, needOf(&v.full, p.UID)) && !r.permits.has(p, node.Name) {
			if out == nil {
				out = map[types.UID]bool{}
			}
			out[p.UID] = true
		}
	}
	return out
}
