package nodepool

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/api/nodes/v1alpha1"
	"orrery/controllers/nodepool/merge"
	"orrery/controllers/nodepool/record"
)

// verdict is the decision about a node.
type verdict struct {
	// full is the desired state of the node; now leaves out the changes that wait for a rollout.
	full, now merge.Outcome
	// retry is when a key that is held off may be set again; 0 if there is none.
	retry time.Duration
}

// recordOf returns the record on a node.
func recordOf(node *corev1.Node) (record.Record, error) {
	return record.Parse(node.Annotations[v1alpha1.RecordAnnotation])
}

// judge decides about a node. It makes no calls and changes nothing.
func (r *reconciler) judge(node *corev1.Node, rec record.Record, pools []*merge.Pool, now time.Time) verdict {
	var v verdict
	in := merge.Input{Node: node.UID, Pools: pools, Gone: r.ledger.isGone, Startup: r.startup, Now: now}
	held, retry := r.ledger.heldOff(node.Name, now)
	if held != nil {
		in.HeldOff = func(k record.Key) bool { return held[k] }
		v.retry = retry
	}
	state := record.StateOf(node)
	v.full = merge.Next(state, rec, in)
	v.now = v.full
	if waiting := r.waiting(node, &rec, &v.full, pools, now); waiting != nil {
		in.Waiting = func(uid types.UID) bool { return waiting[uid] }
		v.now = merge.Next(state, rec, in)
	}
	return v
}

// waiting returns the pools whose rollout has not reached the node yet; nil if there is none.
func (r *reconciler) waiting(node *corev1.Node, rec *record.Record, full *merge.Outcome, pools []*merge.Pool, now time.Time) map[types.UID]bool {
	if len(full.Changes) == 0 {
		return nil
	}
	var out map[types.UID]bool
	for _, p := range pools {
		if bounded(p.Rollout, needOf(full, p.UID)) && !fresh(node, rec, p, now) && !r.permits.has(p, node.Name) {
			if out == nil {
				out = map[types.UID]bool{}
			}
			out[p.UID] = true
		}
	}
	return out
}
