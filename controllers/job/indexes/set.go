package indexes

import (
	"cmp"
	"slices"
	"sort"
)

// Interval is the indexes from First to Last, both included.
type Interval struct {
	First, Last int
}

func (i Interval) size() int { return i.Last - i.First + 1 }

// Set is a set of indexes: intervals in ascending order, with at least one index missing between two of them.
type Set []Interval

// Of returns the set of these indexes, which may come in any order and more than once. It orders the slice.
func Of(all []int) Set {
	slices.Sort(all)
	var s Set
	for _, i := range all {
		s = s.extend(Interval{i, i})
	}
	return s
}

// extend adds an interval that begins no earlier than the last one of the set, which it may change.
func (s Set) extend(next Interval) Set {
	if n := len(s); n > 0 && next.First <= s[n-1].Last+1 {
		s[n-1].Last = max(s[n-1].Last, next.Last)
		return s
	}
	return append(s, next)
}

// Union returns the indexes that are in either set.
func (s Set) Union(t Set) Set {
	switch {
	case len(t) == 0:
		return s
	case len(s) == 0:
		return t
	}
	out := make(Set, 0, len(s)+len(t))
	for len(s) > 0 && len(t) > 0 {
		if s[0].First > t[0].First {
			s, t = t, s
		}
		out = out.extend(s[0])
		s = s[1:]
	}
	for _, i := range append(s[:len(s):len(s)], t...) { // one of them is empty
		out = out.extend(i)
	}
	return out
}

// Has reports whether an index is in the set.
func (s Set) Has(index int) bool {
	at := sort.Search(len(s), func(i int) bool { return s[i].Last >= index })
	return at < len(s) && s[at].First <= index
}

// Len returns the number of indexes.
func (s Set) Len() int {
	n := 0
	for _, i := range s {
		n += i.size()
	}
	return n
}

// Common returns how many indexes are in both sets.
func (s Set) Common(t Set) int {
	n := 0
	for len(s) > 0 && len(t) > 0 {
		both := Interval{max(s[0].First, t[0].First), min(s[0].Last, t[0].Last)}
		n += max(0, both.size())
		switch cmp.Compare(s[0].Last, t[0].Last) {
		case -1:
			s = s[1:]
		case 1:
			t = t[1:]
		default:
			s, t = s[1:], t[1:]
		}
	}
	return n
}

// Missing returns the n lowest indexes below limit that are not in the set, or all of them if there are fewer.
func (s Set) Missing(n, limit int) []int {
	var out []int
	next := 0
	for _, i := range append(s[:len(s):len(s)], Interval{limit, limit}) {
		for ; next < min(i.First, limit); next++ {
			if len(out) == n {
				return out
			}
			out = append(out, next)
		}
		next = max(next, i.Last+1)
	}
	return out
}
