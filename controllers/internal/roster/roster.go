package roster

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"orrery/kit/client"
)

// Cache is what a Roster reads. The objects are shared and read-only.
type Cache struct {
	// Pod returns a pod; ok is false if there is none.
	Pod func(key client.Key) (pod *corev1.Pod, ok bool)
	// Pods lists the pods of a namespace.
	Pods func(namespace string) []*corev1.Pod
	// Selections lists the selections of a namespace.
	Selections func(namespace string) []Selection
}

// Selection is an object that selects pods of its namespace: those that have all its labels and match the rest.
type Selection struct {
	Key client.Key
	// Labels are the labels that a pod must have.
	Labels map[string]string
	// Rest is what a pod must match in addition; nil for nothing.
	Rest labels.Selector
}

func (s Selection) equal(o Selection) bool {
	if (s.Rest == nil) != (o.Rest == nil) || !maps.Equal(s.Labels, o.Labels) {
		return false
	}
	return s.Rest == nil || s.Rest.String() == o.Rest.String()
}

func (s Selection) matches(set map[string]string) bool {
	for k, want := range s.Labels {
		if have, ok := set[k]; !ok || have != want {
			return false
		}
	}
	return s.Rest == nil || s.Rest.Matches(labels.Set(set))
}

// Roster is safe for concurrent use. Enter and Leave must be called only after the cache shows the change.
type Roster struct {
	cache Cache

	mu     sync.RWMutex // guards spaces and everything in them except entry.names
	spaces map[string]*space
}

// New returns an empty roster.
func New(c Cache) *Roster { return &Roster{cache: c, spaces: map[string]*space{}} }

// Select returns the selected pods, in no order. The selection is tracked from then on, until Forget.
func (r *Roster) Select(sel Selection) []*corev1.Pod {
	e := r.find(sel)
	if e == nil {
		e = r.track(sel)
	}
	return e.current(r.cache.Pod)
}

// Forget stops tracking an object's selection.
func (r *Roster) Forget(key client.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.spaces[key.Namespace]
	if s == nil {
		return
	}
	s.remove(key.Name)
	if len(s.entries) == 0 {
		delete(r.spaces, key.Namespace)
	}
}

// Matching returns the tracked objects that select a pod with these labels.
func (r *Roster) Matching(namespace string, set map[string]string) []client.Key {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var keys []client.Key
	r.spaces[namespace].each(set, func(e *entry) { keys = append(keys, e.Key) })
	return keys
}

// Enter adds a pod that is new or has new labels, and returns the tracked objects that select it.
func (r *Roster) Enter(pod *corev1.Pod) []client.Key {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var keys []client.Key
	r.spaces[pod.Namespace].each(pod.Labels, func(e *entry) {
		e.add(pod.Name)
		keys = append(keys, e.Key)
	})
	return keys
}

// Leave drops the name of a deleted pod, and returns the tracked objects that selected it.
func (r *Roster) Leave(pod *corev1.Pod) []client.Key {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var keys []client.Key
	r.spaces[pod.Namespace].each(pod.Labels, func(e *entry) {
		e.drop(pod.Name, r.cache.Pod)
		keys = append(keys, e.Key)
	})
	return keys
}

// find returns the entry of an object, or nil if there is none or its selector is different.
func (r *Roster) find(sel Selection) *entry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.spaces[sel.Key.Namespace]
	if s == nil {
		return nil
	}
	if e := s.entries[sel.Key.Name]; e != nil && e.equal(sel) {
		return e
	}
	return nil
}

// track adds a selection and fills in its pods. The cache is read after the selection is added, with r.mu held: an earlier
// change of a pod is in the list, and the event of a later one waits for the lock.
func (r *Roster) track(sel Selection) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.spaces[sel.Key.Namespace]
	added := newSpace()
	if s == nil {
		// The first selection of a namespace adds all others, so that a restart takes only one pass over its pods.
		s = newSpace()
		r.spaces[sel.Key.Namespace] = s
		for _, other := range r.cache.Selections(sel.Key.Namespace) {
			if other.Key != sel.Key {
				s.insert(newEntry(other), added)
			}
		}
	}
	s.remove(sel.Key.Name)
	e := newEntry(sel)
	s.insert(e, added)
	for _, pod := range r.cache.Pods(sel.Key.Namespace) {
		added.each(pod.Labels, func(e *entry) { e.add(pod.Name) })
	}
	return e
}

// pair is a label and its value. The zero pair, which no pod has, stands for selections without labels.
type pair struct{ key, value string }

// space holds the selections of one namespace.
type space struct {
	entries map[string]*entry
	filed   map[pair][]*entry // each entry is filed under one pair of its labels
	uses    map[pair]int      // how many selectors have the pair
}

func newSpace() *space {
	return &space{entries: map[string]*entry{}, filed: map[pair][]*entry{}, uses: map[pair]int{}}
}

// insert files an entry, and files it in also under the same pair.
func (s *space) insert(e *entry, also *space) {
	first := true
	for _, k := range slices.Sorted(maps.Keys(e.Labels)) {
		p := pair{k, e.Labels[k]}
		if first || s.uses[p] < s.uses[e.under] {
			e.under, first = p, false
		}
	}
	for k, v := range e.Labels {
		s.uses[pair{k, v}]++
	}
	s.entries[e.Key.Name] = e
	s.filed[e.under] = append(s.filed[e.under], e)
	also.filed[e.under] = append(also.filed[e.under], e)
}

func (s *space) remove(name string) {
	e := s.entries[name]
	if e == nil {
		return
	}
	delete(s.entries, name)
	for k, v := range e.Labels {
		p := pair{k, v}
		if s.uses[p]--; s.uses[p] == 0 {
			delete(s.uses, p)
		}
	}
	rest := slices.DeleteFunc(s.filed[e.under], func(o *entry) bool { return o == e })
	if len(rest) == 0 {
		delete(s.filed, e.under)
	} else {
		s.filed[e.under] = rest
	}
}

// each calls f for the entries that select a pod with these labels. A nil space has none.
func (s *space) each(set map[string]string, f func(*entry)) {
	if s == nil {
		return
	}
	for k, v := range set {
		s.among(pair{k, v}, set, f)
	}
	s.among(pair{}, set, f)
}

func (s *space) among(p pair, set map[string]string, f func(*entry)) {
	for _, e := range s.filed[p] {
		if e.matches(set) {
			f(e)
		}
	}
}

// entry is one selection. Only names changes.
type entry struct {
	Selection
	under pair

	mu    sync.Mutex // guards names
	names map[string]struct{}
}

func newEntry(s Selection) *entry { return &entry{Selection: s, names: map[string]struct{}{}} }

func (e *entry) add(pod string) {
	e.mu.Lock()
	e.names[pod] = struct{}{}
	e.mu.Unlock()
}

// drop removes a name unless the cache has a pod of that name again. The look-up happens with mu held: if such a pod is
// created at this moment, its event adds the name afterwards.
func (e *entry) drop(pod string, lookup func(client.Key) (*corev1.Pod, bool)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := lookup(client.Key{Namespace: e.Key.Namespace, Name: pod}); !ok {
		delete(e.names, pod)
	}
}

// current returns the pods that match now and drops the names of others, with mu held for the same reason as in drop.
func (e *entry) current(lookup func(client.Key) (*corev1.Pod, bool)) []*corev1.Pod {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]*corev1.Pod, 0, len(e.names))
	for name := range e.names {
		pod, ok := lookup(client.Key{Namespace: e.Key.Namespace, Name: name})
		if !ok || !e.matches(pod.Labels) {
			delete(e.names, name)
			continue
		}
		out = append(out, pod)
	}
	return out
}
