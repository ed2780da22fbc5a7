package merge

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/controllers/nodepool/record"
)

// longestKept is the length up to which a value of somebody else is recorded.
const longestKept = 4096

// Input is what an outcome depends on, in addition to the node's state and record.
type Input struct {
	// Node is the UID of the node.
	Node types.UID
	// Pools are all pools, including those being deleted, by precedence.
	Pools []*Pool
	// Gone reports whether a pool that a record names and that is not in Pools is known not to exist.
	Gone func(types.UID) bool
	// Waiting reports whether a pool may not set anything new on this node yet; nil means none.
	Waiting func(types.UID) bool
	// HeldOff reports whether a key is left alone for a while because others keep changing it; nil means none.
	HeldOff func(record.Key) bool
	// Startup is the taint that is removed when the node has what its pools specify; nil if there is none.
	Startup *corev1.Taint
	// Now is recorded, to the second.
	Now time.Time
}

// claim is the pool that decides a key, and the value that it specifies. A held key stays as it is.
type claim struct {
	pool  *Pool
	value string
	held  bool
}

// run is one merge under way.
type run struct {
	Input
	out    Outcome
	again  bool               // the node was recreated, and the record is that of its predecessor
	joined map[types.UID]bool // pools that the node has joined before
	member map[types.UID]bool // pools that the node belongs to and that act on it now
	claims map[record.Key]claim
	waits  bool // the rollout of a pool that the node belongs to has not reached it yet
	paused bool // a pool that the node belongs to is paused
}

// Next returns the desired state of a node. Which pools it belongs to depends on its current labels, not on those that it
// will get. rec is not changed.
func Next(state record.State, rec record.Record, in Input) Outcome {
	r := &run{Input: in, joined: map[types.UID]bool{}, member: map[types.UID]bool{}, claims: map[record.Key]claim{}}
	labels := state.Labels
	r.out.State, r.out.Record = state.Shared(), rec.Clone()
	r.remember()
	r.retain()
	r.claim(labels)
	for _, k := range r.keys() {
		r.settle(k)
	}
	r.forget()
	r.join()
	r.start()
	r.out.Record.Prune()
	r.out.Noted = !r.out.Record.Equal(rec)
	slices.SortFunc(r.out.Changes, func(a, b Change) int { return record.Compare(a.Key, b.Key) })
	slices.SortFunc(r.out.Conflicts, func(a, b Conflict) int { return cmp.Or(record.Compare(a.Key, b.Key), cmp.Compare(a.Pool, b.Pool)) })
	return r.out
}

// remember finds out which pools the node has joined. One that was recreated with an old record has joined none.
func (r *run) remember() {
	r.again = r.out.Record.Node != r.Node
	r.out.Record.Node = r.Node
	for i := range r.out.Record.Pools {
		p := &r.out.Record.Pools[i]
		p.Joined = p.Joined && !r.again
		r.joined[p.UID] = !r.again
	}
}

// retain drops the records of deleted pools with deletionPolicy Retain: nobody owns their keys from then on.
func (r *run) retain() {
	for _, p := range r.Pools {
		if p.Deleting && p.Retain {
			r.out.Record.Forget(p.UID)
		}
	}
}

// claim finds the pool that decides each key.
func (r *run) claim(labels map[string]string) {
	for _, p := range r.Pools {
		matches := p.Matches(labels)
		waiting := matches && !p.frozen() && r.Waiting != nil && r.Waiting(p.UID)
		r.waits = r.waits || waiting
		r.paused = r.paused || matches && p.Paused
		switch {
		case p.Deleting:
		case p.frozen() || waiting:
			r.hold(p)
		case matches:
			r.member[p.UID] = true
			for k, v := range p.Values {
				r.ask(p, k, v)
			}
		}
	}
}

// hold keeps what a pool owns as it is. A pool that waits for its rollout still gives up keys that it no longer specifies.
func (r *run) hold(p *Pool) {
	own := r.out.Record.Find(p.UID)
	if own == nil {
		return
	}
	for k := range own.Keys {
		if _, asked := p.Values[k]; asked || p.frozen() {
			if _, taken := r.claims[k]; !taken {
				r.claims[k] = claim{pool: p, held: true}
			}
		}
	}
}

func (r *run) ask(p *Pool, k record.Key, v string) {
	first, taken := r.claims[k]
	switch {
	case !taken:
		r.claims[k] = claim{pool: p, value: v}
	case !first.held && first.value != v && first.pool.Priority == p.Priority:
		r.conflict(p.UID, k, Tie)
	}
}

func (r *run) conflict(pool types.UID, k record.Key, why ConflictReason) {
	r.out.Conflicts = append(r.out.Conflicts, Conflict{Pool: pool, Key: k, Reason: why})
}

// keys returns every key that is owned or claimed, sorted.
func (r *run) keys() []record.Key {
	all := map[record.Key]bool{}
	for k := range r.claims {
		all[k] = true
	}
	for _, p := range r.out.Record.Pools {
		for k := range p.Keys {
			all[k] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), record.Compare)
}

// settle decides one key.
func (r *run) settle(k record.Key) {
	owner := r.out.Record.Owner(k)
	c, claimed := r.claims[k]
	switch {
	case claimed && c.held, owner != nil && r.keeps(owner, claimed):
	case claimed:
		if owner != nil && c.pool.Skip && owner.Keys[k].Was != nil && owner.Keys[k].Was.Text != c.value {
			r.release(k, owner) // somebody else has set it, and the pool skips such keys
			owner = nil
		}
		if owner != nil || !r.skips(k, c) {
			r.take(k, c, owner)
		}
	default:
		r.release(k, owner)
	}
}

// keeps reports whether the owner of a key keeps it for now: it may be a pool that is not known to be gone, or a pool that
// the node leaves while the pool that it moves to has to wait, so that there is no gap between the two.
func (r *run) keeps(owner *record.Pool, claimed bool) bool {
	switch p := r.pool(owner.UID); {
	case p == nil:
		return !r.Gone(owner.UID)
	case p.Deleting || claimed || p.frozen() || r.member[p.UID]:
		return false
	}
	return r.waits && !r.Waiting(owner.UID)
}

// skips reports whether a pool leaves a key that no pool owns to whoever has set it.
func (r *run) skips(k record.Key, c claim) bool {
	now, has := r.out.State.Get(k)
	if !c.pool.Skip || !has {
		return false
	}
	if now.Text != c.value {
		r.conflict(c.pool.UID, k, Foreign)
	}
	return true
}

// take makes the pool that decides a key its owner.
func (r *run) take(k record.Key, c claim, owner *record.Pool) {
	now, has := r.out.State.Get(k)
	var was *record.Value
	why := Asked
	switch {
	case owner != nil:
		e := owner.Keys[k]
		was = e.Was
		changed := !has || !e.Holds(now.Text)
		if r.again && changed { // the previous values of its predecessor mean nothing for a recreated node
			if was = nil; has {
				was = &now
			}
		}
		if !r.again && changed {
			if r.HeldOff != nil && r.HeldOff(k) {
				r.conflict(c.pool.UID, k, Flapping)
				return
			}
			if !has || now.Text != c.value {
				r.out.Drifted = append(r.out.Drifted, k)
			}
		}
		if !r.again && owner.UID == c.pool.UID && e.Holds(c.value) {
			why = Drift
		}
		delete(owner.Keys, k)
	case has && len(now.Text) > longestKept:
		r.conflict(c.pool.UID, k, TooLong)
		return
	case has:
		was = &now
	}
	own := r.out.Record.Open(c.pool.Name, c.pool.UID)
	if !record.Take(&r.out.State, own, k, c.value, was) {
		return
	}
	r.change(c.pool.UID, k, now, has, why)
	if why == Asked {
		r.note(c.pool)
	}
}

// release gives up a key that no pool specifies.
func (r *run) release(k record.Key, owner *record.Pool) {
	if r.staysFrom(owner.UID, k) {
		delete(owner.Keys, k)
		return
	}
	uid := owner.UID
	now, has := r.out.State.Get(k)
	if record.Release(&r.out.State, owner, k) {
		r.change(uid, k, now, has, GivenUp)
	}
}

// forget drops the records of pools that no longer exist, now that they own nothing.
func (r *run) forget() {
	for _, own := range slices.Clone(r.out.Record.Pools) {
		p := r.pool(own.UID)
		if len(own.Keys) == 0 && (p == nil && r.Gone(own.UID) || p != nil && p.Deleting) {
			r.out.Record.Forget(own.UID)
		}
	}
}

func (r *run) pool(uid types.UID) *Pool {
	if i := slices.IndexFunc(r.Pools, func(p *Pool) bool { return p.UID == uid }); i >= 0 {
		return r.Pools[i]
	}
	return nil
}

// staysFrom reports whether a pool has changed the propagation of a taint to OnJoin: then it no longer owns the taint, which is
// not removed.
func (r *run) staysFrom(uid types.UID, k record.Key) bool {
	return k.Kind == record.Taint && r.member[uid] && slices.ContainsFunc(r.pool(uid).OnJoin, func(t corev1.Taint) bool { return record.TaintKey(t) == k })
}

// join adds the taints that a node gets only once, when it becomes a member.
func (r *run) join() {
	for _, p := range r.Pools {
		if len(p.OnJoin) == 0 || !r.member[p.UID] || r.joined[p.UID] {
			continue
		}
		for _, t := range p.OnJoin {
			k := record.TaintKey(t)
			if _, has := r.out.State.Get(k); !has {
				r.out.State.Set(k, record.Value{Text: t.Value})
				r.change(p.UID, k, record.Value{}, false, Asked)
			}
		}
		r.out.Record.Open(p.Name, p.UID).Joined = true
		r.note(p)
	}
}

// start removes the start-up taint once no pool of the node is waiting or paused.
func (r *run) start() {
	if r.Startup == nil || r.waits || r.paused {
		return
	}
	k := record.TaintKey(*r.Startup)
	if _, wanted := r.claims[k]; wanted {
		return // a pool specifies it
	}
	if now, has := r.out.State.Get(k); has {
		r.out.State.Delete(k)
		r.change("", k, now, true, Started)
	}
}

// note records when a pool last changed the node.
func (r *run) note(p *Pool) {
	own := r.out.Record.Open(p.Name, p.UID)
	own.Hash, own.At = p.Hash, r.Now.UTC().Truncate(time.Second)
}

func (r *run) change(pool types.UID, k record.Key, was record.Value, had bool, why Why) {
	c := Change{Pool: pool, Key: k, Why: why}
	if had {
		c.From = &was.Text
	}
	if now, has := r.out.State.Get(k); has {
		c.To = &now.Text
	}
	r.out.Changes = append(r.out.Changes, c)
}
