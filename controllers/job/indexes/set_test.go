package indexes

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestTextForm(t *testing.T) {
	for text, want := range map[string]struct {
		limit int
		set   Set
		back  string
	}{
		"":                      {10, nil, ""},
		"0":                     {10, Set{{0, 0}}, "0"},
		"0,1":                   {10, Set{{0, 1}}, "0,1"},
		"0-2":                   {10, Set{{0, 2}}, "0-2"},
		"0-5,7":                 {10, Set{{0, 5}, {7, 7}}, "0-5,7"},
		"0-5,7,9-12":            {10, Set{{0, 5}, {7, 7}, {9, 9}}, "0-5,7,9"},
		"0-5,7,20-30":           {10, Set{{0, 5}, {7, 7}}, "0-5,7"},
		"3-8":                   {5, Set{{3, 4}}, "3,4"},
		"x,1,2-y,4,-1":          {10, Set{{1, 1}, {4, 4}}, "1,4"},
		"5-3,6":                 {10, Set{{6, 6}}, "6"},
		"7,1-3,2":               {10, Set{{1, 3}, {7, 7}}, "1-3,7"},
		"0-1,2-3,4":             {10, Set{{0, 4}}, "0-4"},
		"9999999999999999999,1": {10, Set{{1, 1}}, "1"},
	} {
		got := Parse(text, want.limit)
		if !slices.Equal(got, want.set) || got.String() != want.back {
			t.Errorf("Parse(%q, %d) = %v, written %q; want %v, %q", text, want.limit, got, got, want.set, want.back)
		}
	}
}

// members is the plain form of a set, to compare with.
func members(s Set) []int {
	var out []int
	for _, i := range s {
		for n := i.First; n <= i.Last; n++ {
			out = append(out, n)
		}
	}
	return out
}

func TestSetsEqualPlainLists(t *testing.T) {
	const limit = 40
	random := func() []int {
		var out []int
		for range rand.IntN(50) {
			out = append(out, rand.IntN(limit))
		}
		return out
	}
	for range 2000 {
		a, b := random(), random()
		s, u := Of(slices.Clone(a)), Of(slices.Clone(b))
		for i := 1; i < len(s); i++ {
			if s[i].First <= s[i-1].Last+1 {
				t.Fatalf("%v of %v: intervals touch", s, a)
			}
		}
		had := slices.Clone(s)
		var union, missing []int
		common := 0
		for i := range limit {
			inA, inB := slices.Contains(a, i), slices.Contains(b, i)
			if s.Has(i) != inA {
				t.Fatalf("%v has %d: %t", s, i, s.Has(i))
			}
			if inA || inB {
				union = append(union, i)
			}
			if inA && inB {
				common++
			}
			if !inA {
				missing = append(missing, i)
			}
		}
		if s.Has(-1) || s.Has(limit) {
			t.Fatalf("%v has what is out of range", s)
		}
		if got := s.Union(u); !slices.Equal(members(got), union) || got.Len() != len(union) {
			t.Fatalf("%v with %v is %v, want %v", s, u, got, union)
		}
		if got := s.Common(u); got != common {
			t.Fatalf("%v and %v have %d in common, want %d", s, u, got, common)
		}
		n := rand.IntN(limit + 5)
		if got := s.Missing(n, limit); !slices.Equal(got, missing[:min(n, len(missing))]) {
			t.Fatalf("the first %d that %v lacks are %v, want %v", n, s, got, missing)
		}
		if !slices.Equal(s, had) {
			t.Fatalf("%v became %v: reading changed it", had, s)
		}
		if back := Parse(s.String(), limit); !slices.Equal(back, s) {
			t.Fatalf("%v is written %q and read as %v", s, s, back)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0-5,7", 10)
	f.Add("3,1-2,,-", 4)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < 0 || limit > 1<<20 {
			return
		}
		s := Parse(text, limit)
		for i, at := range s {
			if at.First < 0 || at.Last >= limit || at.First > at.Last || i > 0 && at.First <= s[i-1].Last+1 {
				t.Fatalf("Parse(%q, %d) = %v", text, limit, s)
			}
		}
	})
}

// BenchmarkWorstCase is every second index of a Job of 10,000.
func BenchmarkWorstCase(b *testing.B) {
	var parts []string
	for i := 0; i < 10000; i += 2 {
		parts = append(parts, strconv.Itoa(i))
	}
	text := strings.Join(parts, ",")
	b.ReportAllocs()
	for b.Loop() {
		if s := Parse(text, 10000).Union(Of([]int{9999})); len(s.String()) < len(text) {
			b.Fatal("shorter")
		}
	}
}
