package graph

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Absent takes in that a live read has found no object of that UID under that name. A name without namespace is that of
// a cluster-scoped kind and holds for every dependent.
func (g *Graph) Absent(ref Ref) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	var e Effects
	n := g.known(ref.UID)
	if n == nil {
		return e
	}
	asked := n.goesBy(ref)
	if !n.virtual && asked {
		g.drop(n, ref, &e)
		return e
	}
	matching, others := n.split(ref)
	if n.virtual && len(others) == 0 {
		g.drop(n, ref, &e)
		return e
	}
	if len(matching) > 0 {
		e.Gone = append(e.Gone, ref)
		for _, d := range matching {
			e.check(d)
		}
	}
	if n.virtual && asked {
		g.detach(n, &e)
		n.rename(ref, others, &e)
	}
	return e
}

// goesBy reports whether the graph knows the node under that name. The namespace of a virtual node of a cluster-scoped
// kind is a guess.
func (n *node) goesBy(ref Ref) bool {
	own := n.ref
	if n.virtual && ref.Namespace == "" {
		own.Namespace = ""
	}
	return own == ref
}

// split returns the dependents that mean this owner, and those that mean another one of its UID. One with several
// references can be in both.
func (n *node) split(ref Ref) (matching, others []*node) {
	for d := range n.dependents {
		means, differs := false, false
		for _, o := range d.owners {
			if o.uid != ref.UID {
				continue
			}
			if o.means(ref, d.ref.Namespace) {
				means = true
			} else {
				differs = true
			}
		}
		if means {
			matching = append(matching, d)
		}
		if differs {
			others = append(others, d)
		}
	}
	return matching, others
}

// rename gives a virtual node, absent under one name, the next name that its dependents know it by, in a fixed order
// that comes round to all of them.
func (n *node) rename(absent Ref, dependents []*node, e *Effects) {
	var names []Ref
	for _, d := range dependents {
		for _, o := range d.owners {
			if o.uid != absent.UID || o.means(absent, d.ref.Namespace) {
				continue
			}
			name := Ref{Kind: o.kind, Namespace: d.ref.Namespace, Name: o.name, UID: o.uid}
			if absent.Namespace == "" && o.kind == absent.Kind {
				name.Namespace = ""
			}
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.SortFunc(names, Ref.compare)
	next := names[0]
	if i := slices.IndexFunc(names, func(r Ref) bool { return absent.compare(r) < 0 }); i >= 0 {
		next = names[i]
	}
	n.ref = next
	e.Later = append(e.Later, Pause{Ref: next, After: n.pause()})
}

// View is what the graph knows of one object.
type View struct {
	Ref        Ref
	Virtual    bool
	Deleting   bool // has a deletionTimestamp
	Foreground bool // waits for dependents
	Orphaning  bool // waits for dependents to be released
	Dependents int
	Blockers   int // dependents that it has to wait for
}

// View returns what the graph knows of an object.
func (g *Graph) View(uid types.UID) (View, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.known(uid)
	if n == nil {
		return View{}, false
	}
	return View{
		Ref: n.ref, Virtual: n.virtual, Deleting: n.deleting, Foreground: n.foreground, Orphaning: n.orphaning,
		Dependents: len(n.dependents), Blockers: n.blockers,
	}, true
}

// Dependents returns all dependents of an object.
func (g *Graph) Dependents(uid types.UID) []Ref {
	return g.dependents(uid, func(*node, bool) bool { return true })
}

// Pending returns the dependents that an object's deletion in the foreground waits for and that are not being deleted.
func (g *Graph) Pending(uid types.UID) []Ref {
	return g.dependents(uid, func(d *node, blocks bool) bool { return blocks && (d.virtual || !d.deleting) })
}

// Loose returns the dependents that an object's deletion in the foreground does not wait for and that are not being deleted.
func (g *Graph) Loose(uid types.UID) []Ref {
	return g.dependents(uid, func(d *node, blocks bool) bool { return !blocks && !d.virtual && !d.deleting })
}

func (g *Graph) dependents(uid types.UID, want func(d *node, blocks bool) bool) []Ref {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.known(uid)
	if n == nil {
		return nil
	}
	var out []Ref
	for d, blocks := range n.dependents {
		if want(d, blocks) {
			out = append(out, d.ref)
		}
	}
	return out
}

// Deadlocked reports whether an object holds up the deletion of an owner that waits, directly or through others, for
// this very object to finish: a circle of objects that are deleted in the foreground and wait for each other.
func (g *Graph) Deadlocked(uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.known(uid)
	if n == nil {
		return false
	}
	seen := map[*node]bool{}
	for next := []*node{n}; len(next) > 0; {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		for d, blocks := range at.dependents {
			// d waits for its own dependents, and at waits for d.
			if blocks && !seen[d] && (d.foreground || d == n) {
				seen[d] = true
				next = append(next, d)
			}
		}
	}
	for _, o := range n.owners {
		if p := g.nodes[o.uid]; o.blocks && p != nil && (seen[p] || p == n) {
			return true
		}
	}
	return false
}

// Pause returns how long to wait before a node that still is not settled is looked at again.
func (g *Graph) Pause(uid types.UID) Pause {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.known(uid)
	if n == nil {
		return Pause{}
	}
	return Pause{Ref: n.ref, After: n.pause()}
}

// Len returns the number of nodes.
func (g *Graph) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.nodes)
}
