package status

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The size of a chart in its own coordinates, which the page scales.
const (
	chartStep   = 2
	chartWidth  = chartStep * (slots - 1)
	chartHeight = 32
)

// chart is a sparkline of the last 15 minutes.
type chart struct {
	Label      string // for screen readers
	Line, Area string // SVG paths
	Bad        string // path of the part that failed; empty if nothing did
	Level      bool   // all values are zero
}

// newChart draws values, oldest first. bad is the part of them that failed, in the same unit, or nil. text formats a value.
func newChart(what string, values, bad []float64, text func(float64) string) chart {
	most := slices.Max(values)
	c := chart{Label: fmt.Sprintf("%s over the last 15 minutes: now %s, at most %s", what, text(values[len(values)-1]), text(most))}
	if most <= 0 {
		most, c.Level = 1, true
	}
	c.Line = path(values, most)
	c.Area = area(values, most)
	if len(bad) > 0 && slices.Max(bad) > 0 {
		c.Bad = area(bad, most)
	}
	return c
}

// path returns a line through the values, as the d attribute of an SVG path. Points within a level stretch are left out.
func path(values []float64, most float64) string {
	var b strings.Builder
	for i, v := range values {
		level := i > 0 && i < len(values)-1 && values[i-1] == v && values[i+1] == v
		switch {
		case i == 0:
			fmt.Fprintf(&b, "M0 %s", y(v, most))
		case !level:
			fmt.Fprintf(&b, "L%d %s", i*chartStep, y(v, most))
		}
	}
	return b.String()
}

func area(values []float64, most float64) string {
	return fmt.Sprintf("%sV%dH0Z", path(values, most), chartHeight)
}

// y leaves room for the width of the line.
func y(v, most float64) string {
	const pad = 1.5
	return strconv.FormatFloat(chartHeight-pad-v/most*(chartHeight-2*pad), 'f', 1, 64)
}
