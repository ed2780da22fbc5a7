package graph

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Concerns reports whether a change of an object from old to new is of interest: to the graph as such, or because the
// graph does not hold the object. It spares the lock's holders the flood of status updates.
func (g *Graph) Concerns(old, new metav1.Object) bool {
	if old.GetUID() != new.GetUID() || (old.GetDeletionTimestamp() == nil) != (new.GetDeletionTimestamp() == nil) ||
		!slices.Equal(old.GetFinalizers(), new.GetFinalizers()) || !sameReferences(old.GetOwnerReferences(), new.GetOwnerReferences()) {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[new.GetUID()]
	return n == nil || n.virtual || n.absent
}

func sameReferences(a, b []metav1.OwnerReference) bool {
	return slices.EqualFunc(a, b, func(x, y metav1.OwnerReference) bool {
		return x.UID == y.UID && x.Name == y.Name && x.Kind == y.Kind && x.APIVersion == y.APIVersion &&
			(x.BlockOwnerDeletion != nil && *x.BlockOwnerDeletion) == (y.BlockOwnerDeletion != nil && *y.BlockOwnerDeletion)
	})
}

// Observe takes in an object as a watch shows it, new or changed.
func (g *Graph) Observe(kind Kind, obj metav1.Object) Effects {
	ref := RefOf(kind, obj)
	g.mu.Lock()
	defer g.mu.Unlock()
	var e Effects
	n := g.nodes[ref.UID]
	switch {
	case n == nil:
		n = &node{ref: ref}
		g.nodes[ref.UID] = n
	case n.virtual || n.absent:
		n.reveal(ref, &e)
	case n.ref != ref && n.ref.Kind.GVK().GroupKind() == kind.GVK().GroupKind():
		n.ref = ref // the server prefers another version of the kind now
	}
	g.relate(n, ownersOf(obj.GetOwnerReferences()), &e)
	n.mark(obj, &e)
	return e
}

// Remove takes in that a watch has shown the deletion of an object.
func (g *Graph) Remove(kind Kind, obj metav1.Object) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	var e Effects
	n := g.known(obj.GetUID())
	if n == nil {
		return e
	}
	if n.virtual {
		n.reveal(RefOf(kind, obj), &e)
	}
	g.drop(n, n.ref, &e)
	return e
}

// Doubt takes in that a list lacks an object which was there before. Lists can be older than what was watched, so where
// something depends on it the object becomes virtual until a live read has decided.
func (g *Graph) Doubt(obj metav1.Object) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	var e Effects
	n := g.known(obj.GetUID())
	if n == nil {
		return e
	}
	matters := len(n.dependents) > 0
	for _, o := range n.owners {
		p := g.nodes[o.uid]
		matters = matters || p != nil && p.foreground
	}
	if !matters {
		g.drop(n, n.ref, &e)
		return e
	}
	n.virtual, n.tries = true, 0
	e.check(n)
	return e
}

// Forget takes in that the server does not have a kind any more, so that no watch will show what becomes of its objects.
// Nothing is concluded about them. No owner waits for one of them any more; those that own something become virtual, and
// are to be asked for after a pause. The graph is then as if it had been built without the kind.
func (g *Graph) Forget(kind Kind, pause time.Duration) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	var e Effects
	var of []*node
	for _, n := range g.nodes {
		if n.ref.Kind == kind && !n.absent {
			of = append(of, n)
		}
	}
	for _, n := range of {
		g.detach(n, &e)
		n.deleting, n.foreground, n.orphaning = false, false, false
	}
	for _, n := range of {
		switch {
		case n.absent: // it was there for another one of them only
		case len(n.dependents) == 0:
			delete(g.nodes, n.ref.UID)
		case !n.virtual:
			n.virtual, n.tries = true, 0
			e.Later = append(e.Later, Pause{Ref: n.ref, After: pause})
		}
	}
	return e
}

// known returns the node of an object that exists as far as the graph knows, or nil.
func (g *Graph) known(uid types.UID) *node {
	if n := g.nodes[uid]; n != nil && !n.absent {
		return n
	}
	return nil
}

// reveal turns a node that was virtual, or believed absent, into an observed one. Dependents that spoke of it by another name may refer to nothing.
func (n *node) reveal(ref Ref, e *Effects) {
	n.virtual, n.absent, n.tries = false, false, 0
	if n.ref == ref {
		return
	}
	n.ref = ref
	_, others := n.split(ref)
	for _, d := range others {
		if ref.Namespace != "" && d.ref.Namespace != ref.Namespace {
			e.misplaced(d, ref.UID)
		}
		e.check(d)
	}
}

// relate replaces the node's owners and checks the new ones.
func (g *Graph) relate(n *node, owners []owner, e *Effects) {
	if slices.Equal(n.owners, owners) {
		return
	}
	old := n.owners
	n.owners = owners
	for _, o := range old {
		if refers, _ := n.refersTo(o.uid); !refers {
			g.release(o.uid, n, e)
		}
	}
	dubious := false
	for _, o := range owners {
		if !slices.Contains(old, o) {
			dubious = g.attach(n, o, e) || dubious
		}
	}
	for _, o := range old {
		g.relax(o.uid, n, e)
	}
	if dubious {
		e.check(n)
	}
}

// release ends the node's dependency on an owner. An owner that does not exist, or may not, is kept only as long as
// something refers to it.
func (g *Graph) release(uid types.UID, n *node, e *Effects) {
	p := g.nodes[uid]
	if p == nil || !p.owns(n) {
		return
	}
	p.unlink(n)
	switch {
	case (p.virtual || p.absent) && len(p.dependents) == 0:
		g.drop(p, p.ref, e)
	case p.finished():
		e.check(p)
	}
}

// relax ends an owner's wait for the node where the reference that made it wait has gone and another to the same owner
// has stayed.
func (g *Graph) relax(uid types.UID, n *node, e *Effects) {
	p := g.nodes[uid]
	if p == nil || !p.dependents[n] {
		return
	}
	if _, blocks := n.refersTo(uid); blocks {
		return
	}
	p.link(n, false)
	if p.finished() {
		e.check(p)
	}
}

// attach makes the node a dependent of an owner. It reports whether the reference may be wrong, so that it has to be
// verified.
func (g *Graph) attach(n *node, o owner, e *Effects) (dubious bool) {
	_, blocks := n.refersTo(o.uid)
	p := g.nodes[o.uid]
	if p == nil {
		p = &node{ref: Ref{Kind: o.kind, Namespace: n.ref.Namespace, Name: o.name, UID: o.uid}, virtual: true}
		g.nodes[o.uid] = p
		p.link(n, blocks)
		e.check(p)
		return false
	}
	p.link(n, blocks)
	switch {
	case p.absent:
		dubious = true
	case p.ref.Namespace != "" && p.ref.Namespace != n.ref.Namespace:
		if !p.virtual {
			e.misplaced(n, o.uid)
		}
		dubious = true
	case p.ref.Kind != o.kind || p.ref.Name != o.name:
		dubious = true
	case p.virtual && p.ref.Namespace != n.ref.Namespace:
		// The owner goes by the reference of a cluster-scoped dependent. It may well be of a namespaced kind, and then that
		// one is at fault and this one has to be looked at for itself.
		dubious = true
	}
	if p.foreground {
		dubious = true
	}
	if p.finished() {
		e.check(p)
	}
	return dubious
}

// mark takes in where the object stands in its deletion.
func (n *node) mark(obj metav1.Object, e *Effects) {
	n.deleting = obj.GetDeletionTimestamp() != nil
	orphan := n.deleting && slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents)
	if orphan && !n.orphaning {
		e.Orphan = append(e.Orphan, n.ref)
	}
	n.orphaning = orphan
	wait := n.deleting && !orphan && slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents)
	begins := wait && !n.foreground
	n.foreground = wait
	if !begins {
		return
	}
	if n.blockers > 0 { // else the look at the owner is one at them too, see Loose
		for d := range n.dependents {
			e.check(d)
		}
	}
	e.check(n)
}

// drop takes a node out that is known to be absent under that name, and asks for a look at what it leaves behind.
func (g *Graph) drop(n *node, known Ref, e *Effects) {
	n.absent, n.virtual, n.deleting, n.foreground, n.orphaning = true, false, false, false, false
	g.detach(n, e)
	if len(n.dependents) == 0 {
		delete(g.nodes, n.ref.UID)
		return
	}
	e.Gone = append(e.Gone, known)
	for d := range n.dependents {
		e.check(d)
	}
}

// detach ends all dependencies of a node on others.
func (g *Graph) detach(n *node, e *Effects) {
	owners := n.owners
	n.owners = nil
	for _, o := range owners {
		g.release(o.uid, n, e)
	}
}
