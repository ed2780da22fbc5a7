package monitoring

import (
	"regexp"
	"slices"
	"strings"
)

var (
	typeLine = regexp.MustCompile(`^# TYPE (\S+) (\S+)$`)
	sample   = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*\{(.*)\} \S+$`)
	pair     = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="(?:[^"\\]|\\.)*"`)
)

// Exposed reads a page of metrics in Prometheus' text format. Those of the Go runtime and of the process, which every Go
// program has, are left out.
func Exposed(page string) map[string]Metric {
	all := map[string]Metric{}
	name, labels := "", []string{}
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if m := typeLine.FindStringSubmatch(line); m != nil {
			name, labels = m[1], nil
			if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
				all[name] = Metric{Type: m[2]}
			}
			continue
		}
		metric, known := all[name]
		m := sample.FindStringSubmatch(line)
		if !known || m == nil {
			continue
		}
		for _, p := range pair.FindAllStringSubmatch(m[1], -1) {
			if p[1] != "le" && !slices.Contains(labels, p[1]) {
				labels = append(labels, p[1])
			}
		}
		slices.Sort(labels)
		metric.Labels = strings.Join(labels, ", ")
		all[name] = metric
	}
	return all
}
