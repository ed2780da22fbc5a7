package record

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// State is the part of a Node that pools can write. It is copied on write: the Node that it is made from never changes.
type State struct {
	Labels, Annotations map[string]string
	Taints              []corev1.Taint

	copied map[Kind]bool
}

// StateOf returns the state of a node.
func StateOf(node *corev1.Node) State {
	return State{Labels: node.Labels, Annotations: node.Annotations, Taints: node.Spec.Taints}
}

// Shared returns the same state, which copies its maps and list before its first write.
func (s State) Shared() State {
	s.copied = nil
	return s
}

// Get returns what the node has under a key.
func (s *State) Get(k Key) (v Value, ok bool) {
	switch k.Kind {
	case Label:
		v.Text, ok = s.Labels[k.Name]
	case Annotation:
		v.Text, ok = s.Annotations[k.Name]
	case Taint:
		if i := s.taint(k); i >= 0 {
			return Value{Text: s.Taints[i].Value, Added: s.Taints[i].TimeAdded}, true
		}
	}
	return v, ok
}

// Set gives the node a value under a key. A taint keeps its place in the list; a new one goes to the end.
func (s *State) Set(k Key, v Value) {
	s.own(k.Kind)
	switch k.Kind {
	case Label:
		s.Labels[k.Name] = v.Text
	case Annotation:
		s.Annotations[k.Name] = v.Text
	case Taint:
		t := corev1.Taint{Key: k.Name, Value: v.Text, Effect: k.Effect, TimeAdded: v.Added}
		if i := s.taint(k); i >= 0 {
			s.Taints[i] = t
		} else {
			s.Taints = append(s.Taints, t)
		}
	}
}

// Delete removes a key from the node.
func (s *State) Delete(k Key) {
	s.own(k.Kind)
	switch k.Kind {
	case Label:
		delete(s.Labels, k.Name)
	case Annotation:
		delete(s.Annotations, k.Name)
	case Taint:
		s.Taints = slices.DeleteFunc(s.Taints, func(t corev1.Taint) bool { return TaintKey(t) == k })
	}
}

func (s *State) taint(k Key) int {
	return slices.IndexFunc(s.Taints, func(t corev1.Taint) bool { return TaintKey(t) == k })
}

// own copies the map or list of a kind before its first write.
func (s *State) own(kind Kind) {
	if s.copied[kind] {
		return
	}
	next := map[Kind]bool{kind: true}
	maps.Copy(next, s.copied)
	s.copied = next
	switch kind {
	case Label:
		s.Labels = cloned(s.Labels)
	case Annotation:
		s.Annotations = cloned(s.Annotations)
	case Taint:
		s.Taints = slices.Clone(s.Taints)
	}
}

func cloned(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return maps.Clone(m)
}
