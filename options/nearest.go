package options

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// FlagError adds the nearest known flag to the error for an unknown one. It is for cobra's SetFlagErrorFunc.
func (s *CMServer) FlagError(err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	var names []string
	s.visitFlags(func(f *pflag.Flag) { names = append(names, f.Name) })
	if name := nearest(unknown.GetSpecifiedName(), names); name != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, name)
	}
	return err
}

// nearest returns the name with the smallest edit distance from word, or nothing if none is near.
func nearest(word string, names []string) string {
	best, least := "", max(1, len(word)/3)+1
	for _, name := range names {
		if d := edits(word, name); d < least || d == least && best != "" && name < best {
			best, least = name, d
		}
	}
	return best
}

// edits is the number of insertions, deletions, replacements and swaps of neighbours that turn a into b (optimal
// string alignment).
func edits(a, b string) int {
	older, old, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		older, old, row = old, row, older
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(old[j+1]+1, row[j]+1, old[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
