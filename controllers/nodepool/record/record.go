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
	// Node is the UID of the Node that the record was written for. A Node that was recreated with an old record has joined
	// no pool yet.
	Node types.UID
	// Pools are sorted by name and UID.
	Pools []Pool
}

// Pool is what one pool remembers.
type Pool struct {
	Name string
	UID  types.UID
	// Hash identifies what the pool specified when it last changed the node, and At is when that was, to the second.
	Hash string
	At   time.Time
	// Joined reports that the taints with propagation OnJoin have been added.
	Joined bool
	// Keys are the keys that the pool owns.
	Keys map[Key]Entry
}

// Entry is one owned key.
type Entry struct {
	// Set is the value that the pool has set, or the digest of a long one.
	Set string
	// Was is the previous value; nil if there was none.
	Was *Value
}

// longest is the length up to which a record holds the set value itself: that of the longest label value.
const longest = 63

// NewEntry returns the entry of a key that is set to a text, with its previous value.
func NewEntry(text string, was *Value) Entry { return Entry{Set: digest(text), Was: was} }

// Holds reports whether a text is what the pool has set.
func (e Entry) Holds(text string) bool { return e.Set == digest(text) }

// digest returns a value, or its hash if it is long. A hash cannot be mistaken for a value, since it is longer than any that
// is kept.
func digest(text string) string {
	if len(text) <= longest {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Clone returns a record that can be changed independently of this one.
func (r Record) Clone() Record {
	r.Pools = slices.Clone(r.Pools)
	for i := range r.Pools {
		r.Pools[i].Keys = maps.Clone(r.Pools[i].Keys)
	}
	return r
}

// Equal reports whether two records have the same content.
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

// Open returns the entry of a pool, created if there is none. It invalidates pointers that Find and Open returned before.
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

// Release gives up a key that a pool owns: if nobody has changed it since the pool set it, it gets its previous value back.
// Release reports whether that changed the state.
func Release(s *State, p *Pool, k Key) (changed bool) {
	e := p.Keys[k]
	delete(p.Keys, k)
	now, ok := s.Get(k)
	switch {
	case !ok || !e.Holds(now.Text):
		return false // somebody has changed or removed it since
	case e.Was == nil:
		s.Delete(k)
		return true
	case e.Was.Text == now.Text:
		return false
	}
	s.Set(k, *e.Was)
	return true
}

// Take makes a pool the owner of a key and sets its value. was is the value to restore later.
func Take(s *State, p *Pool, k Key, text string, was *Value) (changed bool) {
	p.Keys[k] = NewEntry(text, was)
	if now, ok := s.Get(k); ok && now.Text == text {
		return false
	}
	if next := (Value{Text: text}); was != nil && was.Text == text {
		s.Set(k, *was) // as before, time included
	} else {
		s.Set(k, next)
	}
	return true
}

func comparePools(a, b Pool) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}
