package graph

import (
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Graph is the ownership of all objects of a cluster. It is safe for concurrent use.
type Graph struct {
	mu    sync.Mutex // guards nodes and all they lead to
	nodes map[types.UID]*node
}

// New returns an empty graph.
func New() *Graph { return &Graph{nodes: map[types.UID]*node{}} }

// node is one object. Most objects of a cluster own nothing and many are owned by nothing, so both sides are allocated
// when needed only.
type node struct {
	ref        Ref
	owners     []owner
	dependents map[*node]bool // true: the owner's deletion in the foreground waits for this dependent
	blockers   int            // dependents that are true
	virtual    bool
	absent     bool  // known not to exist; kept for the dependents that refer to it
	deleting   bool  // has a deletionTimestamp
	foreground bool  // deleting, and waits for its dependents
	orphaning  bool  // deleting, and waits for its dependents to be released
	tries      uint8 // live reads since the last news
}

// owner is one owner reference.
type owner struct {
	kind   Kind
	name   string
	uid    types.UID
	blocks bool
}

// means reports whether the reference, of an object in that namespace, names this owner in every detail.
func (o owner) means(r Ref, namespace string) bool {
	return o.uid == r.UID && o.kind == r.Kind && o.name == r.Name && (r.Namespace == "" || r.Namespace == namespace)
}

func ownersOf(refs []metav1.OwnerReference) []owner {
	if len(refs) == 0 {
		return nil
	}
	out := make([]owner, len(refs))
	for i, r := range refs {
		to := RefTo(r, "")
		out[i] = owner{kind: to.Kind, name: to.Name, uid: to.UID, blocks: r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion}
	}
	return out
}

func (n *node) owns(d *node) bool {
	_, ok := n.dependents[d]
	return ok
}

// refersTo reports whether the node has a reference to that UID, and whether one of them blocks.
func (n *node) refersTo(uid types.UID) (refers, blocks bool) {
	for _, o := range n.owners {
		if o.uid == uid {
			refers, blocks = true, blocks || o.blocks
		}
	}
	return refers, blocks
}

// link makes d a dependent, or changes whether it blocks.
func (n *node) link(d *node, blocks bool) {
	if n.dependents == nil {
		n.dependents = map[*node]bool{}
	}
	if n.dependents[d] {
		n.blockers--
	}
	n.dependents[d] = blocks
	if blocks {
		n.blockers++
	}
}

func (n *node) unlink(d *node) {
	if n.dependents[d] {
		n.blockers--
	}
	delete(n.dependents, d)
	if len(n.dependents) == 0 {
		n.dependents = nil
	}
}

// finished reports whether the node waits for dependents in the foreground and none is left that it has to wait for.
func (n *node) finished() bool { return n.foreground && n.blockers == 0 }

// Effects are what a change of the graph asks for. The zero value asks for nothing.
type Effects struct {
	// Gone are names under which an owner is known to be absent. Note them before the rest is acted on.
	Gone []Ref
	// Check are objects that may have to be deleted or finished.
	Check []Ref
	// Later are objects to check after a pause.
	Later []Pause
	// Orphan are owners whose dependents have to be released.
	Orphan []Ref
	// Misplaced are references to an owner in another namespace.
	Misplaced []Misplaced
}

// Pause is a check that is due in a while.
type Pause struct {
	Ref   Ref
	After time.Duration
}

// Misplaced is a reference of a dependent to an owner that exists, but in another namespace.
type Misplaced struct {
	Dependent Ref
	// Owner is the owner as the reference names it, in the dependent's namespace, where it is not.
	Owner Ref
}

// check asks for a look at a node, unless it is on its way out and waits for nothing.
func (e *Effects) check(n *node) {
	if n.virtual || !n.deleting || n.foreground {
		e.Check = append(e.Check, n.ref)
	}
}

func (e *Effects) misplaced(d *node, uid types.UID) {
	i := slices.IndexFunc(d.owners, func(o owner) bool { return o.uid == uid })
	if i < 0 {
		return
	}
	o := d.owners[i]
	e.Misplaced = append(e.Misplaced, Misplaced{
		Dependent: d.ref, Owner: Ref{Kind: o.kind, Namespace: d.ref.Namespace, Name: o.name, UID: o.uid},
	})
}

const (
	firstPause = 5 * time.Millisecond
	lastPause  = 1000 * time.Second
)

// pause returns how long to wait before the node is read live again: twice as long each time.
func (n *node) pause() time.Duration {
	d := firstPause << n.tries
	if d >= lastPause {
		return lastPause
	}
	n.tries++
	return d
}
