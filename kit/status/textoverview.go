package status

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"orrery/kit"
)

// WriteOverview writes an overview as text.
func WriteOverview(w io.Writer, o Overview) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	state, note := role(o)
	objects, bytes := 0, int64(0)
	for _, c := range o.Caches {
		objects, bytes = objects+c.Objects, bytes+c.Bytes
	}
	fmt.Fprintf(t, "%s\t%s\n", o.Component, o.Version)
	fmt.Fprintf(t, "role\t%s: %s\n", strings.ToLower(state.Text), note)
	fmt.Fprintf(t, "up\t%s, %s of memory\n", duration(o.Now.Sub(o.Started)), size(int64(o.Process.Memory)))
	fmt.Fprintf(t, "requests\t%s a second, %s\n", figure(o.Requests.PerSecond), throttling(o.Requests))
	fmt.Fprintf(t, "caches\t%s objects of %d kinds, about %s\n", count(objects), len(o.Caches), size(bytes))
	if len(o.Loops) > 0 {
		fmt.Fprintf(t, "\nLOOP\tSTATE\tQUEUE\tIN WORK\tOLDEST\tRATE/S\tMEAN\tLAST SUCCESS\tFAILED\tRETRIES\tPANICS\n")
	}
	for _, l := range o.Loops {
		s, _ := stateText(l)
		fmt.Fprintf(t, "%s\t%s\t%d\t%d/%d\t%s\t%s\t%s\t%s\t%d\t%d\t%d\n", l.Name, s, l.QueueLength, len(l.Running), l.Workers,
			dash(l.QueueLength > 0, duration(l.Oldest)), figure(l.PerSecond), dash(l.Mean > 0, duration(l.Mean)), ago(l.LastSuccess, o.Now),
			l.Totals[kit.OutcomeFailed]+l.Totals[kit.OutcomeTerminal], l.Retries, l.Totals[kit.OutcomePanicked])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return writeRest(t, o)
}

// writeRest writes the sections that are often empty.
func writeRest(t *tabwriter.Writer, o Overview) error {
	title := "\nTO LOOK AT\n"
	for _, l := range o.Loops {
		for _, n := range notices(l, o.Now) {
			fmt.Fprintf(t, "%s%s\t%s\n", title, n.Subject, n.Text)
			title = ""
		}
		if s, why := stateText(l); why != "" && s == "waiting" {
			fmt.Fprintf(t, "%s%s\twaits %s\n", title, l.Name, why)
			title = ""
		}
	}
	writeDryRun(t, o.DryRun, o.Now)
	for i, n := range o.NotRunning {
		if i == 0 {
			fmt.Fprintf(t, "\nNOT RUNNING\n")
		}
		fmt.Fprintf(t, "%s\t%s\n", n.Name, n.Why)
	}
	return t.Flush()
}

// stateText returns the state of a loop in a word, and the reason for it.
func stateText(l Loop) (word, why string) {
	p, why := state(l)
	return p.Text, why
}

func dash(is bool, text string) string {
	if is {
		return text
	}
	return "-"
}
