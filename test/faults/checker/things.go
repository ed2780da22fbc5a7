package checker

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OnlyNamespace is the label of objects that are deleted only because their namespace is.
const OnlyNamespace = "only-namespace"

// things is the existing objects of any kind, and those that must not exist any more.
type things struct {
	living     map[types.UID]metav1.Object
	dependents map[types.UID]map[types.UID]bool // by owner
	spaces     map[string]*space
	witnesses  map[types.UID][]accusation // by who must not be seen any more
	orphans    map[types.UID]bool         // those that nobody may delete any more
	waiting    map[types.UID][]types.UID  // whom an owner that is deleted in the foreground waits for
	seen       map[types.UID]int64        // when in seconds an object was first seen
	vanished   int                        // namespaces
	collected  int                        // objects with owners
}

func newThings() things {
	return things{
		living: map[types.UID]metav1.Object{}, dependents: map[types.UID]map[types.UID]bool{}, spaces: map[string]*space{},
		witnesses: map[types.UID][]accusation{}, orphans: map[types.UID]bool{}, waiting: map[types.UID][]types.UID{}, seen: map[types.UID]int64{},
	}
}

// space is a namespace that is being deleted, or has been.
type space struct {
	pods map[types.UID]bool // that were in it when it was deleted
	gone bool
}

// accusation is a violation that is confirmed if its witness, another object, turns out to have existed. If changes were
// missed, a witness that no longer exists may have been removed before.
type accusation struct {
	rule, what string
	object     metav1.Object
}

// accuse records that a rule is violated if the witness exists.
func (c *Checker) accuse(witness types.UID, rule string, o metav1.Object, format string, args ...any) {
	c.witnesses[witness] = append(c.witnesses[witness], accusation{rule, fmt.Sprintf(format, args...), o})
}

// hear processes a change of a witness: it existed until now, unless a list found it missing.
func (c *Checker) hear(e Event) {
	uid := e.Object.GetUID()
	if e.Listed && !e.Gone {
		return // it may be old
	}
	if !e.Listed {
		c.condemn(uid)
	}
	delete(c.witnesses, uid)
}

func (c *Checker) condemn(witness types.UID) {
	for _, a := range c.witnesses[witness] {
		c.violated(a.rule, a.object, nil, "%s\n    %s", a.what, fmt.Sprint(c.historyOf(witness)))
	}
}

// Conclude says that all changes up to now have been applied.
func (c *Checker) Conclude() {
	for uid := range c.witnesses {
		if c.living[uid] != nil {
			c.condemn(uid)
		}
	}
}

func going(o metav1.Object) bool { return o != nil && o.GetDeletionTimestamp() != nil }

// onThing does the part of Apply that is the same for all kinds.
func (c *Checker) onThing(e Event) {
	o, uid := e.Object, e.Object.GetUID()
	c.hear(e)
	was := c.living[uid]
	if was == nil && !e.Gone {
		c.seen[uid] = c.now.Unix()
	}
	if s := c.spaces[o.GetNamespace()]; s != nil && s.gone && !e.Listed {
		c.violated("namespace", o, nil, "its namespace was gone already")
	}
	if (e.Gone || going(o)) && !going(was) {
		c.onLeaving(e)
	}
	c.link(was, o, e.Gone)
	if !e.Gone {
		c.living[uid] = o
		return
	}
	delete(c.living, uid)
	delete(c.seen, uid)
	c.checkForeground(e)
	if ns, ok := o.(*corev1.Namespace); ok {
		c.onNamespaceGone(ns, e.Listed)
	}
}

// link records an object as a dependent of its owners.
func (c *Checker) link(was, is metav1.Object, gone bool) {
	uid := is.GetUID()
	if was != nil {
		for _, ref := range was.GetOwnerReferences() {
			delete(c.dependents[ref.UID], uid)
		}
	}
	if gone {
		return
	}
	for _, ref := range is.GetOwnerReferences() {
		if c.dependents[ref.UID] == nil {
			c.dependents[ref.UID] = map[types.UID]bool{}
		}
		c.dependents[ref.UID][uid] = true
	}
}

// onLeaving checks an object that is being deleted, or has been removed.
func (c *Checker) onLeaving(e Event) {
	o := e.Object
	if ns, ok := o.(*corev1.Namespace); ok {
		c.onNamespaceDeleted(ns, e.Listed)
		return
	}
	if e.Listed {
		return // when it was, and what was there then, is not known
	}
	s := c.spaces[o.GetNamespace()]
	if o.GetLabels()[OnlyNamespace] != "" {
		c.checkPodsFirst(o, s)
	}
	if s == nil {
		c.checkCollected(o)
		c.noteDependents(o)
	}
}

func (c *Checker) onNamespaceDeleted(ns *corev1.Namespace, listed bool) {
	s := &space{pods: map[types.UID]bool{}}
	c.spaces[ns.Name] = s
	if listed {
		return // some of the pods may have come later
	}
	for uid, p := range c.loose {
		if p.Namespace == ns.Name {
			s.pods[uid] = true
		}
	}
}

// checkPodsFirst checks an object that is deleted with its namespace: the namespace's pods must have been removed before.
func (c *Checker) checkPodsFirst(o metav1.Object, s *space) {
	if s == nil {
		c.violated("collected", o, nil, "it goes, and its namespace does not")
		return
	}
	for uid := range s.pods {
		if p := c.loose[uid]; p != nil {
			c.accuse(uid, "pods first", o, "it goes before %s", name(p))
		}
	}
}

// onNamespaceGone looks for objects that were left behind.
func (c *Checker) onNamespaceGone(ns *corev1.Namespace, listed bool) {
	s := c.spaces[ns.Name]
	if s == nil {
		s = &space{}
		c.spaces[ns.Name] = s
	}
	c.vanished++
	s.gone = !listed
	if listed {
		return
	}
	for uid, o := range c.living {
		if o.GetNamespace() == ns.Name {
			c.accuse(uid, "namespace", ns, "it is gone, and %s is not", name(o))
		}
	}
}

// ending reports whether a namespace is being deleted: its objects are then deleted in any order, and other rules do not
// apply.
func (c *Checker) ending(namespace string) bool { return c.spaces[namespace] != nil }

// unsettledThings names what should be gone once nothing changes any more: what is being deleted, what has lost its
// owner, and references to such owners.
func (c *Checker) unsettledThings() (names []string) {
	for uid, o := range c.living {
		lost := slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return c.living[ref.UID] == nil })
		s := c.spaces[o.GetNamespace()]
		if lost || going(o) && !c.stuck(uid) || s != nil && s.gone {
			names = append(names, name(o))
		}
	}
	return names
}
