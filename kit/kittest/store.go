package kittest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"orrery/kit/client"
)

// change is one entry of a resource's history. The objects that it points to are immutable.
type change struct {
	version uint64
	kind    watch.EventType
	obj     *unstructured.Unstructured
	prev    *unstructured.Unstructured
}

// table holds the objects of one resource, in the API version in which they were written.
type table struct {
	objects   map[client.Key]*unstructured.Unstructured
	history   []change
	compacted uint64 // watches from an earlier version are refused
	streams   []*stream
	delay     time.Duration // of watch events
	frozen    bool
}

// store is the database. Callers must hold API.mu.
type store struct {
	version uint64 // the latest resourceVersion
	serial  uint64 // of uids and generated names
	tables  map[schema.GroupResource]*table
}

func newStore() *store {
	return &store{version: 100, tables: map[schema.GroupResource]*table{}}
}

func (s *store) table(gr schema.GroupResource) *table {
	t := s.tables[gr]
	if t == nil {
		t = &table{objects: map[client.Key]*unstructured.Unstructured{}}
		s.tables[gr] = t
	}
	return t
}

// now is the current time in the precision of the API, seconds.
func now() metav1.Time { return metav1.NewTime(time.Now().Truncate(time.Second)) }

func (s *store) newUID() types.UID {
	s.serial++
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.serial))
}

// suffixLetters are the letters of the suffixes of generated names.
const suffixLetters = "bcdfghjklmnpqrstvwxz2456789"

// newSuffix returns the next generated suffix: bbbbc, bbbbd and so on.
func (s *store) newSuffix() string {
	s.serial++
	out := []byte("bbbbb")
	for n, i := s.serial, len(out)-1; n > 0 && i >= 0; n, i = n/uint64(len(suffixLetters)), i-1 {
		out[i] = suffixLetters[n%uint64(len(suffixLetters))]
	}
	return string(out)
}

// put stores an object, which the caller must not modify any more, under the next version and notifies the watches.
func (s *store) put(gr schema.GroupResource, o *unstructured.Unstructured) *unstructured.Unstructured {
	s.version++
	o.SetResourceVersion(strconv.FormatUint(s.version, 10))
	t, key := s.table(gr), client.KeyOf(o)
	prev := t.objects[key]
	t.objects[key] = o
	kind := watch.Modified
	if prev == nil {
		kind = watch.Added
	}
	t.tell(change{s.version, kind, o, prev})
	return o
}

// remove deletes an object and notifies the watches.
func (s *store) remove(gr schema.GroupResource, key client.Key) *unstructured.Unstructured {
	t := s.table(gr)
	prev := t.objects[key]
	s.version++
	last := prev.DeepCopy()
	last.SetResourceVersion(strconv.FormatUint(s.version, 10))
	delete(t.objects, key)
	t.tell(change{s.version, watch.Deleted, last, prev})
	return last
}

func (t *table) tell(c change) {
	t.history = append(t.history, c)
	t.streams = slices.DeleteFunc(t.streams, (*stream).ended)
	for _, w := range t.streams {
		w.change(c, t.delay)
	}
}

// list returns the selected objects, in the order of byKey.
func (t *table) list(p selection) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, o := range t.objects {
		if p.matches(o) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int { return byKey(client.KeyOf(a), client.KeyOf(b)) })
	return out
}

// byKey compares keys in the order in which etcd holds them: namespaces are followed by a slash.
func byKey(a, b client.Key) int {
	if a.Namespace == b.Namespace {
		return strings.Compare(a.Name, b.Name)
	}
	return strings.Compare(a.Namespace+"/", b.Namespace+"/")
}
