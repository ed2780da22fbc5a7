package nodepool

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"orrery/api/nodes/v1alpha1"
	"orrery/controllers/nodepool/merge"
	"orrery/controllers/nodepool/record"
)

const (
	// newcomer is the age up to which a node counts as new, if it is younger than the pool and no pool has changed it. A
	// change hardly disturbs such a node, and it must have its taints before pods are scheduled to it: it skips the rollout.
	newcomer = 10 * time.Minute
	// suspicion is how long after a change the change is suspected to be the cause if the node becomes not ready.
	suspicion = 10 * time.Minute
)

// need is how disruptive the pending changes of a node are.
type need int

const (
	nothing  need = iota
	change        // something is set
	eviction      // pods are evicted
)

// needOf returns how disruptive what a pool still has to do on a node is. Repairs and removals do not count.
func needOf(out *merge.Outcome, pool types.UID) need {
	n := nothing
	for _, c := range out.Changes {
		if c.Pool == pool && c.Why == merge.Asked {
			n = max(n, change)
			if c.Evicts() {
				return eviction
			}
		}
	}
	return n
}

// bounded reports whether the rollout limits such changes.
func bounded(r v1alpha1.Rollout, n need) bool {
	return n == eviction || n == change && r.MaxUpdating != nil
}

// fresh reports whether a node is new to the cluster and to all pools, and younger than the pool. Existing nodes that a new
// pool changes are part of a rollout, even in a new cluster.
func fresh(node *corev1.Node, rec *record.Record, p *merge.Pool, now time.Time) bool {
	came := node.CreationTimestamp.Time
	return len(rec.Pools) == 0 && now.Sub(came) < newcomer && came.After(p.Created)
}

// candidate is what the rollout of a pool needs to know about a member.
type candidate struct {
	name    string
	need    need
	granted bool
	// until is when the node no longer counts as being updated.
	until time.Time
	// broken reports that the node has become not ready since it was changed.
	broken bool
}

// turns says which nodes may be changed now, and what the others wait for.
type turns struct {
	granted map[string]bool
	waiting int
	// brokenNode has become not ready since it was changed: the rollout is halted until it is ready.
	brokenNode string
	// next is how long it takes until a node no longer counts as being updated; 0 if no node waits for that.
	next time.Duration
}

// takeTurns decides which nodes of a pool may be changed. A turn that was granted is not taken back. The candidates are
// sorted by name.
func takeTurns(all []candidate, r v1alpha1.Rollout, now time.Time) turns {
	t := turns{granted: map[string]bool{}}
	most, evicting := bounds(r, len(all))
	updating := 0
	for _, c := range all {
		if c.broken && t.brokenNode == "" {
			t.brokenNode = c.name
		}
		if left := c.until.Sub(now); left > 0 {
			updating++
			if t.next == 0 || left < t.next {
				t.next = left
			}
		}
	}
	evictions := updating
	for _, again := range []bool{true, false} {
		for _, c := range all {
			if c.granted != again || !bounded(r, c.need) {
				continue
			}
			if t.brokenNode != "" || updating >= most || c.need == eviction && evictions >= evicting {
				t.waiting++
				continue
			}
			t.granted[c.name] = true
			updating++
			if c.need == eviction {
				evictions++
			}
		}
	}
	if t.waiting == 0 {
		t.next = 0
	}
	return t
}

// bounds returns how many of the nodes may be changed at a time, and how many of those may get NoExecute taints.
func bounds(r v1alpha1.Rollout, total int) (most, evicting int) {
	most, evicting = max(total, 1), 1
	if r.MaxUpdating != nil {
		if n, err := intstr.GetScaledValueFromIntOrPercent(r.MaxUpdating, total, true); err == nil {
			most = max(n, 1)
		}
	}
	if r.NoExecuteMaxUpdating != nil {
		evicting = max(int(*r.NoExecuteMaxUpdating), 1)
	}
	return most, evicting
}

// permits are the turns that pools have granted to nodes.
type permits struct {
	mu    sync.Mutex // guards given
	given map[types.UID]permit
}

type permit struct {
	hash  string // of the pool when it was granted
	nodes map[string]bool
}

func newPermits() *permits { return &permits{given: map[types.UID]permit{}} }

// has reports whether a node has a turn for what the pool specifies now.
func (p *permits) has(pool *merge.Pool, node string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	given := p.given[pool.UID]
	return given.hash == pool.Hash && given.nodes[node]
}

// give replaces the turns of a pool and returns the nodes that did not have one before.
func (p *permits) give(pool *merge.Pool, nodes map[string]bool) (newly []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.given[pool.UID]
	for n := range nodes {
		if before.hash != pool.Hash || !before.nodes[n] {
			newly = append(newly, n)
		}
	}
	p.given[pool.UID] = permit{hash: pool.Hash, nodes: nodes}
	return newly
}

// drop forgets a pool.
func (p *permits) drop(pool types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.given, pool)
}
