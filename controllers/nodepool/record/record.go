package record

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Record is what pools remember of one Node.
type Record struct {
	// Node is the UID of the Node that the record was written for. A Node that was made again with an old record has
	// joined no pool yet.
	Node types.UID
	// Pools are sorted by name and UID.
	Pools []Pool
}

// Pool is what one pool remembers.
type Pool struct {
	Name string
	UID  types.UID
	// Hash stands for what the pool asked for when it last changed the node, and At is when that was, to the second.
	Hash string
	At   time.Time
	// Joined says that the taints of the pool that are added once have been added.
	Joined bool
	// Keys are those that the pool owns.
	Keys map[Key]Entry
}

// Entry is one owned key.
type Entry struct {
	// Set is the value that the pool has set, or the digest of a long one.
	Set string
	// Was is what the node had before; nil if nothing.
	Was *Value
}

// longest is the length up to which a record holds a value that was set itself: that of the longest label value.
const longest = 63

// NewEntry returns the entry of a key that is set to a text over what was there.
func NewEntry(text string, was *Value) Entry { return Entry{Set: digest(text), Was: was} }

// Holds reports whether a text is what the pool has set.
func (e Entry) Holds(text string) bool { return e.Set == digest(text) }

// digest stands for a value: itself, or if it is long its hash, which no value of that length can be mistaken for.
func digest(text string) string {
	if len(text) <= longest {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Clone returns a record that can be changed without this one.
func (r Record) Clone() Record {
	r.Pools = slices.Clone(r.Pools)
	for i := range r.Pools {
		r.Pools[i].Keys = maps.Clone(r.Pools[i].Keys)
	}
	return r
}

// Equal reports whether two records remember the same.
func (r Record) Equal(other Record) bool {
	return (len(r.Pools) == 0 || r.Node == other.Node) && slices.EqualFunc(r.Pools, other.Pools, func(a, b Pool) bool {
		return a.Name == b.Name && a.UID == b.UID && a.Hash == b.Hash && a.At.Equal(b.At) && a.Joined == b.Joined &&
			maps.EqualFunc(a.Keys, b.Keys, sameEntry)
	})
}

func sameEntry(a, b Entry) bool {
	if a.Set != b.Set || (a.Was == nil) != (b.Was == nil) {
		return false
	}
	return a.Was == nil || a.Was.Text == b.Was.Text && a.Was.Added.Equal(b.Was.Added)
}

// Find returns the entry of a pool, or nil.
func (r *Record) Find(uid types.UID) *Pool {
	for i := range r.Pools {
		if r.Pools[i].UID == uid {
			return &r.Pools[i]
		}
	}
	return nil
}

// Open returns the entry of a pool, made if there is none. It moves what Find and Open have returned before.
func (r *Record) Open(name string, uid types.UID) *Pool {
	if p := r.Find(uid); p != nil {
		return p
	}
	p := Pool{Name: name, UID: uid, Keys: map[Key]Entry{}}
	i, _ := slices.BinarySearchFunc(r.Pools, p, comparePools)
	r.Pools = slices.Insert(r.Pools, i, p)
	return &r.Pools[i]
}

// Owner returns the pool that owns a key, or nil.
func (r *Record) Owner(k Key) *Pool {
	for i := range r.Pools {
		if _, ok := r.Pools[i].Keys[k]; ok {
			return &r.Pools[i]
		}
	}
	return nil
}

// Prune drops the entries of pools that own no key and have nothing else to remember.
func (r *Record) Prune() {
	r.Pools = slices.DeleteFunc(r.Pools, func(p Pool) bool { return len(p.Keys) == 0 && !p.Joined })
}

// Forget drops all that a pool remembers and leaves the node as it is.
func (r *Record) Forget(uid types.UID) {
	r.Pools = slices.DeleteFunc(r.Pools, func(p Pool) bool { return p.UID == uid })
}

// Release gives up a key that a pool owns: what the pool has set, and nobody has changed since, goes back to what it
// was. It reports whether that changed the state.
func Release(s *State, p *Pool, k Key) (changed bool) {
	e := p.Keys[k]
	delete(p.Keys, k)
	now, ok := s.Get(k)
	switch {
	case !ok || !e.Holds(now.Text):
		return false // somebody's edit, or removal, of after the pool's
	case e.Was == nil:
		s.Delete(k)
		return true
	case e.Was.Text == now.Text:
		return false
	}
	s.Set(k, *e.Was)
	return true
}

// Take gives a key to a pool and the state its value. was is what the pool remembers to put back.
func Take(s *State, p *Pool, k Key, text string, was *Value) (changed bool) {
	p.Keys[k] = NewEntry(text, was)
	if now, ok := s.Get(k); ok && now.Text == text {
		return false
	}
	if next := (Value{Text: text}); was != nil && was.Text == text {
		s.Set(k, *was) // as it was, times included
	} else {
		s.Set(k, next)
	}
	return true
}

func comparePools(a, b Pool) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}
