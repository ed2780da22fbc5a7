package nodepool

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/controllers/nodepool/record"
)

const (
	// freeRepairs is how often a key may be repaired before it is held off for a while.
	freeRepairs = 3
	// firstPause is how long it is held off first. The pause doubles with each further repair, up to longestPause.
	firstPause   = 30 * time.Second
	longestPause = 30 * time.Minute
	// A node does not converge if it is written busyWrites times within busyTime without anybody else changing it in
	// between, or busiestWrites times in any case. It is then held off for restTime, or until a pool changes.
	busyWrites    = 10
	busiestWrites = 60
	busyTime      = time.Minute
	restTime      = 5 * time.Minute
	// calm is how long a key must keep its value for its repairs to be forgotten.
	calm = time.Hour
)

// ledger is what the process knows about nodes in addition to their records: which writes failed, and which keys others keep
// changing. It is lost with the process; the next one finds out again.
type ledger struct {
	mu    sync.Mutex // guards the fields below
	nodes map[string]*page
	gone  map[types.UID]bool // pools that the server has confirmed to be gone
	swept map[string]string  // by pool name: the version for which the pool's nodes have been queued
}

type page struct {
	trouble   string
	repairs   map[record.Key]*repairs
	signature string      // of all pools, at the writes below
	version   string      // resourceVersion of the node after the last write
	writes    []time.Time // of the last minute
	again     []time.Time // those of them before which nobody else had changed the node since the last write
	rest      time.Time   // the node is held off until then, or until the signature changes
}

// repairs are those of one key.
type repairs struct {
	count int
	last  time.Time
	until time.Time // the key is held off until then
}

func newLedger() *ledger {
	return &ledger{nodes: map[string]*page{}, gone: map[types.UID]bool{}, swept: map[string]string{}}
}

func (l *ledger) page(node string) *page {
	p := l.nodes[node]
	if p == nil {
		p = &page{repairs: map[record.Key]*repairs{}}
		l.nodes[node] = p
	}
	return p
}

// note remembers why a node cannot be written, empty if it can, and reports whether that is news.
func (l *ledger) note(node, trouble string) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nodes[node] == nil && trouble == "" {
		return false
	}
	p := l.page(node)
	news = p.trouble != trouble
	p.trouble = trouble
	return news
}

// trouble returns why a node cannot be written; empty if it can.
func (l *ledger) trouble(node string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.nodes[node]; p != nil {
		return p.trouble
	}
	return ""
}

// repaired remembers that keys which others had changed were set again, and reports whether one of them is now held off.
func (l *ledger) repaired(node string, keys []record.Key, now time.Time) (paused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		all := l.page(node).repairs
		r := all[k]
		if r == nil || now.Sub(r.last) > calm {
			r = &repairs{}
			all[k] = r
		}
		r.count++
		r.last = now
		if over := r.count - freeRepairs; over >= 0 {
			r.until = now.Add(min(firstPause<<min(over, 10), longestPause))
			paused = true
		}
	}
	return paused
}

// heldOff returns the keys of a node that are held off, and when the first of them may be set again.
func (l *ledger) heldOff(node string, now time.Time) (held map[record.Key]bool, next time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.nodes[node]
	if p == nil {
		return nil, 0
	}
	for k, r := range p.repairs {
		left := r.until.Sub(now)
		switch {
		case now.Sub(r.last) > calm && left <= 0:
			delete(p.repairs, k)
		case left > 0:
			if held == nil {
				held = map[record.Key]bool{}
			}
			held[k] = true
			if next == 0 || left < next {
				next = left
			}
		}
	}
	return held, next
}

// wrote remembers a write of a node, with the resulting resourceVersion, and reports whether the node is now held off because
// it has been written repeatedly although no pool has changed.
func (l *ledger) wrote(node *corev1.Node, version, signature string, now time.Time) (rests bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.page(node.Name)
	if p.signature != signature {
		p.signature, p.writes, p.again, p.rest = signature, nil, nil, time.Time{}
	}
	over := func(t time.Time) bool { return now.Sub(t) > busyTime }
	p.writes, p.again = append(slices.DeleteFunc(p.writes, over), now), slices.DeleteFunc(p.again, over)
	if node.ResourceVersion == p.version {
		p.again = append(p.again, now)
	}
	p.version = version
	if len(p.again) < busyWrites && len(p.writes) < busiestWrites {
		return false
	}
	p.writes, p.again, p.rest = nil, nil, now.Add(restTime)
	return true
}

// resting returns for how long a node is still held off. A change of any pool, according to the signature, ends that.
func (l *ledger) resting(node string, now time.Time, signature func() string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.nodes[node]
	if p == nil || !p.rest.After(now) || p.signature != signature() {
		return 0
	}
	return p.rest.Sub(now)
}

// forget drops what is known about a node that is gone.
func (l *ledger) forget(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.nodes, node)
}

func (l *ledger) noteGone(pool types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone[pool] = true
}

func (l *ledger) isGone(pool types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone[pool]
}

// sweep reports whether the nodes of a pool have yet to be queued for its current version, and notes that they are.
func (l *ledger) sweep(pool, version string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.swept[pool]; ok && old == version {
		return false
	}
	if l.swept[pool] = version; version == "" {
		delete(l.swept, pool)
	}
	return true
}
