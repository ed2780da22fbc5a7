package roster

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"orrery/kit/client"
)

// Cache is what a Roster reads: the objects as they are now, shared and read-only.
type Cache struct {
	// Pod returns a pod; ok is false if there is none.
	Pod func(key client.Key) (pod *corev1.Pod, ok bool)
	// Pods lists the pods of a namespace.
	Pods func(namespace string) []*corev1.Pod
	// Services lists the Services of a namespace.
	Services func(namespace string) []*corev1.Service
}

// Roster is safe for concurrent use. Pod events must be passed on after the cache shows the change.
type Roster struct {
	cache Cache

	mu     sync.RWMutex // guards spaces and what they hold, save the names of an entry
	spaces map[string]*space
}

// New returns an empty roster.
func New(c Cache) *Roster { return &Roster{cache: c, spaces: map[string]*space{}} }

// Selects reports whether the roster follows a Service: it selects pods, and they answer for it.
func Selects(svc *corev1.Service) bool {
	return len(svc.Spec.Selector) > 0 && svc.Spec.Type != corev1.ServiceTypeExternalName
}

// Select returns the pods that a Service selects, in no order. The Service is followed from then on.
func (r *Roster) Select(svc *corev1.Service) []*corev1.Pod {
	e := r.find(svc)
	if e == nil {
		e = r.follow(svc)
	}
	return e.current(r.cache.Pod)
}

// Forget ends the following of a Service.
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

// Matching returns the followed Services that select a pod with these labels.
func (r *Roster) Matching(namespace string, labels map[string]string) []client.Key {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var keys []client.Key
	r.spaces[namespace].each(labels, func(e *entry) { keys = append(keys, e.key) })
	return keys
}

// Enter files a pod that is new or has new labels, and returns the followed Services that select it.
func (r *Roster) Enter(pod *corev1.Pod) []client.Key {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var keys []client.Key
	r.spaces[pod.Namespace].each(pod.Labels, func(e *entry) {
		e.add(pod.Name)
		keys = append(keys, e.key)
	})
	return keys
}

// Leave drops the name of a pod that is gone, and returns the followed Services that selected it.
func (r *Roster) Leave(pod *corev1.Pod) []client.Key {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var keys []client.Key
	r.spaces[pod.Namespace].each(pod.Labels, func(e *entry) {
		e.drop(pod.Name, r.cache.Pod)
		keys = append(keys, e.key)
	})
	return keys
}

// find returns the entry of a Service if it is there with the same selector.
func (r *Roster) find(svc *corev1.Service) *entry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.spaces[svc.Namespace]
	if s == nil {
		return nil
	}
	if e := s.entries[svc.Name]; e != nil && maps.Equal(e.selector, svc.Spec.Selector) {
		return e
	}
	return nil
}

// follow files a Service and fills in its pods. The cache is read while r.mu is held and after the Service is filed:
// a pod that changed before is in the list, and the event of one that changes later waits for the lock.
func (r *Roster) follow(svc *corev1.Service) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.spaces[svc.Namespace]
	added := newSpace()
	if s == nil {
		// The first Service of a namespace brings the others, so that a restart costs one pass over the pods.
		s = newSpace()
		r.spaces[svc.Namespace] = s
		for _, other := range r.cache.Services(svc.Namespace) {
			if Selects(other) && other.Name != svc.Name {
				s.insert(newEntry(other), added)
			}
		}
	}
	s.remove(svc.Name)
	e := newEntry(svc)
	s.insert(e, added)
	for _, pod := range r.cache.Pods(svc.Namespace) {
		added.each(pod.Labels, func(e *entry) { e.add(pod.Name) })
	}
	return e
}

// pair is one label with its value.
type pair struct{ key, value string }

// space holds the Services of one namespace.
type space struct {
	entries map[string]*entry
	filed   map[pair][]*entry // each entry stands under one pair of its selector
	uses    map[pair]int      // how many selectors have the pair
}

func newSpace() *space {
	return &space{entries: map[string]*entry{}, filed: map[pair][]*entry{}, uses: map[pair]int{}}
}

// insert files an entry, in also too: there it stands under the same pair.
func (s *space) insert(e *entry, also *space) {
	first := true
	for _, k := range slices.Sorted(maps.Keys(e.selector)) {
		p := pair{k, e.selector[k]}
		if first || s.uses[p] < s.uses[e.under] {
			e.under, first = p, false
		}
	}
	for k, v := range e.selector {
		s.uses[pair{k, v}]++
	}
	s.entries[e.key.Name] = e
	s.filed[e.under] = append(s.filed[e.under], e)
	also.filed[e.under] = append(also.filed[e.under], e)
}

func (s *space) remove(name string) {
	e := s.entries[name]
	if e == nil {
		return
	}
	delete(s.entries, name)
	for k, v := range e.selector {
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

// each calls f for the entries whose selector matches the labels. A nil space has none.
func (s *space) each(labels map[string]string, f func(*entry)) {
	if s == nil {
		return
	}
	for k, v := range labels {
		for _, e := range s.filed[pair{k, v}] {
			if e.matches(labels) {
				f(e)
			}
		}
	}
}

// entry is one Service. All but names is fixed.
type entry struct {
	key      client.Key
	selector map[string]string
	under    pair

	mu    sync.Mutex // guards names
	names map[string]struct{}
}

func newEntry(svc *corev1.Service) *entry {
	return &entry{key: client.KeyOf(svc), selector: svc.Spec.Selector, names: map[string]struct{}{}}
}

func (e *entry) matches(labels map[string]string) bool {
	for k, want := range e.selector {
		if have, ok := labels[k]; !ok || have != want {
			return false
		}
	}
	return true
}

func (e *entry) add(pod string) {
	e.mu.Lock()
	e.names[pod] = struct{}{}
	e.mu.Unlock()
}

// drop removes a name unless the cache has a pod of that name again. To look while mu is held keeps the name of a pod
// that comes back at this moment: its event adds it after.
func (e *entry) drop(pod string, lookup func(client.Key) (*corev1.Pod, bool)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := lookup(client.Key{Namespace: e.key.Namespace, Name: pod}); !ok {
		delete(e.names, pod)
	}
}

// current returns the pods that match now and drops the names of others, under mu for the same reason as in drop.
func (e *entry) current(lookup func(client.Key) (*corev1.Pod, bool)) []*corev1.Pod {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]*corev1.Pod, 0, len(e.names))
	for name := range e.names {
		pod, ok := lookup(client.Key{Namespace: e.key.Namespace, Name: name})
		if !ok || !e.matches(pod.Labels) {
			delete(e.names, name)
			continue
		}
		out = append(out, pod)
	}
	return out
}
