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
	// newcomer is the age up to which a node that no pool has touched, and that has come after the pool, counts as new.
	// There is little on it that a change could disturb, and pods must not get there before it has its taints: it waits
	// for no turn.
	newcomer = 10 * time.Minute
	// suspicion is how long after a change of a node it is taken for the reason why the node becomes not ready.
	suspicion = 10 * time.Minute
)

// need is how much a change of a node can disturb.
type need int

const (
	nothing  need = iota
	change        // something is set
	eviction      // pods are driven off
)

// needOf returns what a pool still has to do on a node. Repairs and removals need no turn.
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

// bounded reports whether a need has to wait for its turn.
func bounded(r v1alpha1.Rollout, n need) bool {
	return n == eviction || n == change && r.MaxUpdating != nil
}

// fresh reports whether a node is new to all pools and to the cluster, and has come after the pool. What a new pool asks
// of the nodes that are there is a rollout, also in a new cluster.
func fresh(node *corev1.Node, rec *record.Record, p *merge.Pool, now time.Time) bool {
	came := node.CreationTimestamp.Time
	return len(rec.Pools) == 0 && now.Sub(came) < newcomer && came.After(p.Created)
}

// candidate is a member of a pool, as its rollout sees it.
type candidate struct {
	name    string
	need    need
	granted bool
	// updating until that time: it was changed a short while ago.
	until time.Time
	// broken says that it has become not ready since it was changed.
	broken bool
}

// turns is who may be changed now, and what the rest waits for.
type turns struct {
	granted map[string]bool
	waiting int
	// brokenNode has become not ready since it was changed: nobody gets a turn until it is ready.
	brokenNode string
	// next is how long it takes until somebody who was changed counts no more; 0 if that holds up nobody.
	next time.Duration
}

// takeTurns decides which nodes of a pool may be changed. Those that had their turn already keep it. The candidates are
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

// bounds returns how many nodes of so many may be changed at a time, and how many of them given NoExecute taints.
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

// permits are the turns that pools have given to nodes.
type permits struct {
	mu    sync.Mutex // guards given
	given map[types.UID]permit
}

type permit struct {
	hash  string // of the pool when it was given
	nodes map[string]bool
}

func newPermits() *permits { return &permits{given: map[types.UID]permit{}} }

// has reports whether a node has its turn for what the pool asks now.
func (p *permits) has(pool *merge.Pool, node string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	given := p.given[pool.UID]
	return given.hash == pool.Hash && given.nodes[node]
}

// give replaces the turns of a pool and returns the nodes that have not had one.
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
