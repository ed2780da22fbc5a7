package disruption

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit"
)

const (
	// fresh is how long an answer is good for all budgets. Within it many pods of one owner cost one question, and a
	// change of the owner's scale is never noticed later.
	fresh = time.Second
	// firstPause and longestPause bound the time between two questions after a failure; it doubles with each.
	firstPause, longestPause = time.Second, time.Minute
	// forgetAfter is when an owner that no budget has asked about is forgotten.
	forgetAfter = 10 * time.Minute
	// sweepEvery is the number of answers after which owners are looked through for those to forget.
	sweepEvery = 1024
)

// errNoOwner is the answer where the owner that a pod names does not exist.
var errNoOwner = errors.New("the owner does not exist")

// scales holds what is known of the scales of custom owners, and who waits to know. It asks nobody itself.
//
// A budget that needs a scale looks for it. If there is no answer that is fresh, the budget is put down as waiting and
// the owner has to be asked; once the answer is in, the budget is called and finds it, however long that takes.
type scales struct {
	mu      sync.Mutex // guards the fields below
	owners  map[owner]*known
	kinds   map[schema.GroupVersionKind]*trouble
	answers int
}

func newScales() *scales {
	return &scales{owners: map[owner]*known{}, kinds: map[schema.GroupVersionKind]*trouble{}}
}

// answer is what asking for a scale came to.
type answer struct {
	replicas int32
	err      error
	ofKind   bool // the failure is one of all owners of this kind
}

// known is what is known of one owner.
type known struct {
	answer
	at, used time.Time
	pause    time.Duration    // after at; 0 unless the answer is a failure
	budgets  map[kit.Key]bool // those that asked and have not settled: whether the answer is in
}

// trouble is a failure of a whole kind.
type trouble struct {
	err   error
	pause time.Duration
	until time.Time
}

// reading is what a look for a scale found.
type reading struct {
	replicas int32
	err      error
	known    bool          // replicas is an answer, or err is
	outdated bool          // the answer is old, and a new one is on its way
	asked    bool          // the answer is to a question of this budget
	again    time.Duration // until the answer is due to be asked for again; 0: not without a reason
}

// look returns what is known of an owner's scale, and whether the owner has to be asked. Then the budget is called with
// the answer.
func (s *scales) look(o owner, budget kit.Key, now time.Time) (r reading, ask bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.owners[o]
	if k == nil {
		k = &known{budgets: map[kit.Key]bool{}}
		s.owners[o] = k
	}
	k.used = now
	answered, age := k.budgets[budget], now.Sub(k.at)
	r = reading{replicas: k.replicas, err: k.err, known: true, asked: answered}
	switch {
	case answered && k.err != nil:
		r.again = max(time.Millisecond, k.pause-age)
		return r, false
	case answered:
		return r, false
	case k.err != nil && age < k.pause:
		r.again = k.pause - age
		return r, false
	case k.err == nil && !k.at.IsZero() && age < fresh:
		r.again = fresh - age
		return r, false
	}
	k.budgets[budget] = false
	if k.err != nil || k.at.IsZero() {
		return reading{}, true
	}
	r.outdated = true
	return r, true
}

// settle ends a look that found all it needs. Until then a budget's answers are good however old they get: those of many
// owners do not come at once.
func (s *scales) settle(budget kit.Key, owners []owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range owners {
		if k := s.owners[o]; k != nil {
			delete(k.budgets, budget)
		}
	}
}

// begin reports whether an owner may be asked. If its kind is in trouble the answer is known already, but for one owner
// each time that the pause is over.
func (s *scales) begin(o owner, now time.Time) (a answer, ask bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.kinds[o.kind]
	switch {
	case t == nil:
		return answer{}, true
	case now.Before(t.until):
		return answer{err: t.err, ofKind: true}, false
	}
	t.until = now.Add(askTimeout)
	return answer{}, true
}

// end files the answer to a question that was asked, or spared by begin, and returns the budgets that wait for it.
func (s *scales) end(o owner, a answer, asked bool, now time.Time) []kit.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.owners[o]
	if asked {
		s.learn(o.kind, a, now)
	}
	if k == nil {
		return nil
	}
	k.answer, k.at = a, now
	switch {
	case a.err == nil:
		k.pause = 0
	case a.ofKind:
		k.pause = max(firstPause, s.kinds[o.kind].until.Sub(now))
	default:
		k.pause = longer(k.pause)
	}
	var waiting []kit.Key
	for budget, answered := range k.budgets {
		if !answered {
			k.budgets[budget] = true
			waiting = append(waiting, budget)
		}
	}
	if s.answers++; s.answers%sweepEvery == 0 {
		s.sweep(now)
	}
	return waiting
}

// learn keeps whether a kind is in trouble. s.mu is held.
func (s *scales) learn(kind schema.GroupVersionKind, a answer, now time.Time) {
	if !a.ofKind {
		delete(s.kinds, kind)
		return
	}
	t := s.kinds[kind]
	if t == nil {
		t = &trouble{}
		s.kinds[kind] = t
	}
	t.err, t.pause = a.err, longer(t.pause)
	t.until = now.Add(t.pause)
}

// sweep forgets the owners that no budget needs any more. s.mu is held.
func (s *scales) sweep(now time.Time) {
	for o, k := range s.owners {
		if now.Sub(k.used) > forgetAfter {
			delete(s.owners, o)
		}
	}
}

func longer(pause time.Duration) time.Duration {
	return min(max(firstPause, 2*pause), longestPause)
}
