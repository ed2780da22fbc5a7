package httpx

import (
	"cmp"
	"mime"
	"slices"
	"strconv"
	"strings"
)

// Clause is one alternative of an Accept header.
type Clause struct {
	MediaType string
	Params    map[string]string
	Quality   float64
}

// ParseAccept returns the alternatives in order of preference. Those that cannot be parsed are left out.
func ParseAccept(header string) []Clause {
	var clauses []Clause
	for part := range strings.SplitSeq(header, ",") {
		mediaType, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		quality, err := strconv.ParseFloat(params["q"], 64)
		if err != nil {
			quality = 1
		}
		clauses = append(clauses, Clause{mediaType, params, quality})
	}
	slices.SortStableFunc(clauses, func(a, b Clause) int { return cmp.Compare(b.Quality, a.Quality) })
	return clauses
}
