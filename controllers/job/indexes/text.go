package indexes

import (
	"slices"
	"strconv"
	"strings"
)

// String returns the set as the API writes it: intervals of three and more indexes as "first-last", others one by one.
func (s Set) String() string {
	var b []byte
	for _, i := range s {
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(i.First), 10)
		if i.size() == 1 {
			continue
		}
		sep := byte('-')
		if i.size() == 2 {
			sep = ','
		}
		b = strconv.AppendInt(append(b, sep), int64(i.Last), 10)
	}
	return string(b)
}

// Parse reads what String writes, as far as it is below limit: the rest is of a time when the Job had more
// completions. Parts that are no numbers are left out.
func Parse(text string, limit int) Set {
	if text == "" {
		return nil
	}
	s := make(Set, 0, strings.Count(text, ",")+1)
	ordered := true
	for part := range strings.SplitSeq(text, ",") {
		i, ok := parseInterval(part)
		if !ok || i.First >= limit {
			continue
		}
		i.Last = min(i.Last, limit-1)
		ordered = ordered && (len(s) == 0 || i.First > s[len(s)-1].Last)
		s = append(s, i)
	}
	if !ordered {
		slices.SortFunc(s, func(a, b Interval) int { return a.First - b.First })
	}
	out := s[:0]
	for _, i := range s {
		out = out.extend(i)
	}
	return out
}

func parseInterval(part string) (Interval, bool) {
	first, last, isRange := strings.Cut(part, "-")
	from, err := strconv.Atoi(first)
	if err != nil {
		return Interval{}, false
	}
	to := from
	if isRange {
		if to, err = strconv.Atoi(last); err != nil {
			return Interval{}, false
		}
	}
	return Interval{from, to}, from >= 0 && from <= to
}
