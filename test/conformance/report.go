package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// describe prints what will run: counts by subject, and who decides them in Orrery's run.
func describe(w io.Writer, specs []spec, built controllers) {
	total, conformance := map[string]int{}, map[string]int{}
	all := 0
	for _, s := range specs {
		subject, _ := subjectOf(s.name)
		total[subject.name]++
		if s.has("Conformance") {
			conformance[subject.name]++
			all++
		}
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "subject\tspecs\t[Conformance]\tdecided by")
	for _, s := range append(slices.Clone(subjects), services) {
		if total[s.name] > 0 {
			fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", s.name, total[s.name], conformance[s.name], built.deciders(s))
		}
	}
	fmt.Fprintf(table, "all\t%d\t%d\t\n", len(specs), all)
	_ = table.Flush()
}

// summary prints the counts of one run.
func summary(w io.Writer, r *result) {
	n := map[string]int{}
	for _, o := range r.Specs {
		n[o.State]++
		if o.flaky() {
			n["flaky"]++
		}
	}
	fmt.Fprintf(w, "%s: %d passed (%d only at the second attempt), %d failed, %d skipped by the suite, %.0f s\n",
		r.Manager, n[passed], n["flaky"], n[failed], n[skipped], r.Seconds)
}

// verdict is the comparison of the two runs. Without a run of upstream's the list speaks for it.
type verdict struct {
	both, conformance, byOrrery, neither int
	worse, better, flaky                 []string
}

func judge(specs []spec, upstream, orrery *result, listed map[string]bool, built controllers) verdict {
	var v verdict
	for _, s := range specs {
		reference := listed[s.name]
		if o, ok := upstream.of(s.name); ok {
			reference = o.State == passed
		}
		got, _ := orrery.of(s.name)
		if got.flaky() {
			v.flaky = append(v.flaky, s.name)
		}
		switch ok := got.State == passed; {
		case ok && reference:
			v.both++
			if s.has("Conformance") {
				v.conformance++
			}
			if subject, _ := subjectOf(s.name); built.deciders(subject) == "Orrery" {
				v.byOrrery++
			}
		case reference:
			v.worse = append(v.worse, fmt.Sprintf("%s\n      %s: %s", s.name, got.Where, firstLine(got.Message)))
		case ok:
			v.better = append(v.better, s.name)
		default:
			v.neither++
		}
	}
	return v
}

// report prints the comparison and returns an error if Orrery fails where upstream passes.
func report(w io.Writer, specs []spec, upstream, orrery *result, listed map[string]bool, built controllers) error {
	if upstream != nil {
		summary(w, upstream)
	}
	summary(w, orrery)
	v := judge(specs, upstream, orrery, listed, built)
	fmt.Fprintf(w, "compared %d specs: %d pass with both, %d of them [Conformance], %d of them decided by Orrery alone; %d pass with neither\n",
		len(specs), v.both, v.conformance, v.byOrrery, v.neither)
	list(w, "passed only at the second attempt with Orrery", v.flaky)
	list(w, "pass with Orrery and not with upstream", v.better)
	list(w, "pass with upstream and NOT with Orrery", v.worse)
	if len(v.worse) > 0 {
		return fmt.Errorf("%d specs pass with upstream and not with %s", len(v.worse), orrery.Manager)
	}
	return nil
}

func list(w io.Writer, title string, names []string) {
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(w, "%s:\n", title)
	for _, name := range names {
		fmt.Fprintln(w, "  ", name)
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
