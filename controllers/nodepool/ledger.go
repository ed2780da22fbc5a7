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
	// freeRepairs is how often a key may be set again before it is left alone for a while.
	freeRepairs = 3
	// firstPause is the first such while. It doubles with each further repair, up to longestPause.
	firstPause   = 30 * time.Second
	longestPause = 30 * time.Minute
	// busyWrites within busyTime, each of a node that nobody else has changed since the one before, make a node one that
	// does not come to rest; so do busiestWrites, whoever caused them. It is left alone for restTime, or until a pool
	// changes.
	busyWrites    = 10
	busiestWrites = 60
	busyTime      = time.Minute
	restTime      = 5 * time.Minute
	// calm is how long a key has to keep its value for its repairs to be forgotten.
	calm = time.Hour
)

// ledger is what the process remembers of nodes beside what is written on them: which writes failed, and which keys
// others change again and again. It is lost with the process, which then finds out again.
type ledger struct {
	mu    sync.Mutex // guards the fields below
	nodes map[string]*page
	gone  map[types.UID]bool // pools of which the server has said that they are no more
	swept map[string]string  // pool names to what their nodes have been woken for
}

type page struct {
	trouble   string
	repairs   map[record.Key]*repairs
	signature string      // of all pools, at the writes below
	version   string      // of the node, as the last write has made it
	writes    []time.Time // of the last minute
	again     []time.Time // those of them that wrote what the one before had made
	rest      time.Time   // the node is left alone until then, or until the signature changes
}

// repairs are those of one key.
type repairs struct {
	count int
	last  time.Time
	until time.Time // the key is left alone until then
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

// note remembers what is wrong with the writes of a node, empty for nothing, and reports whether that is new.
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

// trouble returns what is wrong with the writes of a node.
func (l *ledger) trouble(node string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.nodes[node]; p != nil {
		return p.trouble
	}
	return ""
}

// repaired remembers that keys which others had changed were set again, and reports whether one of them is now left
// alone for a while.
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

// heldOff returns which keys of a node are left alone, and for how long at least one of them still is.
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

// wrote remembers a write of a node, with the version that it has made, and reports whether the node is now left alone for
// a while: it has been written again and again although no pool has changed.
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

// resting returns for how long a node is still left alone. A pool that has changed since, as the signature says, ends it.
func (l *ledger) resting(node string, now time.Time, signature func() string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.nodes[node]
	if p == nil || !p.rest.After(now) || p.signature != signature() {
		return 0
	}
	return p.rest.Sub(now)
}

// forget drops what is known of a node that is gone.
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

// sweep reports whether the nodes of a pool have not been woken yet for what it is now.
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
