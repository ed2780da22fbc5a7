package disruption

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit"
)

const (
	// freshFor is how long an answer serves all budgets: many pods of one owner then cost one request per period.
	freshFor = time.Second
	// minBackoff and maxBackoff bound the time between two requests after a failure; it doubles with each.
	minBackoff, maxBackoff = time.Second, time.Minute
	// forgetAfter is when an owner that no budget has asked about is forgotten.
	forgetAfter = 10 * time.Minute
	// sweepEvery is the number of answers after which such owners are dropped.
	sweepEvery = 1024
)

// errNoOwner is the answer if the owner of a pod does not exist.
var errNoOwner = errors.New("the owner does not exist")

// scales caches the scales of custom owners, and knows which budgets wait for them. It makes no requests itself.
//
// A budget that needs a scale looks it up. If there is no fresh answer, the budget is entered as waiting and the scale must
// be fetched. Once the answer has arrived the budget is requeued, and its answer then counts as fresh however long the
// requeue takes.
type scales struct {
	mu      sync.Mutex // guards the fields below
	owners  map[owner]*ownerScale
	kinds   map[schema.GroupVersionKind]*kindFailure
	answers int
}

func newScales() *scales {
	return &scales{owners: map[owner]*ownerScale{}, kinds: map[schema.GroupVersionKind]*kindFailure{}}
}

// answer is the result of reading a scale.
type answer struct {
	replicas int32
	err      error
	ofKind   bool // the failure concerns all owners of this kind
}

// ownerScale is the last answer about one owner.
type ownerScale struct {
	answer
	at, used time.Time
	backoff  time.Duration    // from at; 0 unless the answer is a failure
	budgets  map[kit.Key]bool // those that requested it and have not settled: whether the answer has arrived
}

// kindFailure is a failure of a whole kind.
type kindFailure struct {
	err     error
	backoff time.Duration
	until   time.Time
}

// reading is what a budget gets to know of a scale.
type reading struct {
	replicas   int32
	err        error
	known      bool          // there is an answer: replicas or err
	outdated   bool          // the answer is old, and a new one is requested
	asked      bool          // the answer was requested by this budget
	retryAfter time.Duration // when the answer has to be requested again; 0 for not without a change
}

// lookUp returns what is known of an owner's scale, and whether it has to be fetched. If so, the budget is requeued when
// the answer has arrived.
func (s *scales) lookUp(o owner, budget kit.Key, now time.Time) (r reading, fetch bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.owners[o]
	if k == nil {
		k = &ownerScale{budgets: map[kit.Key]bool{}}
		s.owners[o] = k
	}
	k.used = now
	answered, age := k.budgets[budget], now.Sub(k.at)
	r = reading{replicas: k.replicas, err: k.err, known: true, asked: answered}
	switch {
	case answered && k.err != nil:
		r.retryAfter = max(time.Millisecond, k.backoff-age)
		return r, false
	case answered:
		return r, false
	case k.err != nil && age < k.backoff:
		r.retryAfter = k.backoff - age
		return r, false
	case k.err == nil && !k.at.IsZero() && age < freshFor:
		r.retryAfter = freshFor - age
		return r, false
	}
	k.budgets[budget] = false
	if k.err != nil || k.at.IsZero() {
		return reading{}, true
	}
	r.outdated = true
	return r, true
}

// settle ends a budget's requests once it has all answers that it needs. Until then its answers count as fresh however old
// they get, because those of many owners do not arrive at once.
func (s *scales) settle(budget kit.Key, owners []owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range owners {
		if k := s.owners[o]; k != nil {
			delete(k.budgets, budget)
		}
	}
}

// begin reports whether the scale of an owner should be fetched. If its whole kind fails, the known failure is the answer,
// except for one owner each time that the backoff has passed.
func (s *scales) begin(o owner, now time.Time) (a answer, fetch bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.kinds[o.kind]
	switch {
	case t == nil:
		return answer{}, true
	case now.Before(t.until):
		return answer{err: t.err, ofKind: true}, false
	}
	t.until = now.Add(fetchTimeout)
	return answer{}, true
}

// end stores an answer, which was fetched or came from begin, and returns the budgets that wait for it.
func (s *scales) end(o owner, a answer, fetched bool, now time.Time) []kit.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.owners[o]
	if fetched {
		s.learn(o.kind, a, now)
	}
	if k == nil {
		return nil
	}
	k.answer, k.at = a, now
	switch {
	case a.err == nil:
		k.backoff = 0
	case a.ofKind:
		k.backoff = max(minBackoff, s.kinds[o.kind].until.Sub(now))
	default:
		k.backoff = nextBackoff(k.backoff)
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

// learn records whether a whole kind fails. s.mu is held.
func (s *scales) learn(kind schema.GroupVersionKind, a answer, now time.Time) {
	if !a.ofKind {
		delete(s.kinds, kind)
		return
	}
	t := s.kinds[kind]
	if t == nil {
		t = &kindFailure{}
		s.kinds[kind] = t
	}
	t.err, t.backoff = a.err, nextBackoff(t.backoff)
	t.until = now.Add(t.backoff)
}

// sweep drops the owners that no budget has asked about for a while. s.mu is held.
func (s *scales) sweep(now time.Time) {
	for o, k := range s.owners {
		if now.Sub(k.used) > forgetAfter {
			delete(s.owners, o)
		}
	}
}

func nextBackoff(d time.Duration) time.Duration {
	return min(max(minBackoff, 2*d), maxBackoff)
}
