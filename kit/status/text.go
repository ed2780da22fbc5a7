package status

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"orrery/kit"
)

// WriteLoop writes the state of a loop as text, with the matches if there was a search.
func WriteLoop(w io.Writer, s kit.State, search string, matches []kit.Entry) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(t, "controller\t%s\nphase\t%s\n", s.Name, s.Phase)
	if s.Degraded != "" {
		fmt.Fprintf(t, "degraded\t%s\n", s.Degraded)
	}
	fmt.Fprintf(t, "workers\t%d\nqueue length\t%d\noldest\t%s\nlast success\t%s\n", s.Workers, s.QueueLength, duration(s.Oldest), when(s.LastSuccess))
	fmt.Fprintf(t, "\nSOURCE\tSYNCED\tERROR\n")
	for _, src := range s.Sources {
		fmt.Fprintf(t, "%s\t%t\t%s\n", src.Name, src.Synced, src.Error)
	}
	fmt.Fprintf(t, "\nRUNNING\tAGE\n")
	for _, r := range s.Running {
		fmt.Fprintf(t, "%s\t%s\n", r.Key, r.Age.Round(time.Millisecond))
	}
	for i, p := range s.Panics {
		if i == 0 {
			fmt.Fprintf(t, "\nPANIC\tIN\tAT\tVALUE\n")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", p.Object, p.Where, when(p.At), p.Value)
	}
	last, title := s.Last, "LAST"
	if search != "" {
		last, title = matches, "MATCH"
	}
	fmt.Fprintf(t, "\n%s\tOUTCOME\tAT\tTOOK\tWRITES\tERROR\n", title)
	for _, e := range last {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\n", e.Key, e.Outcome, when(e.At), e.Took.Round(time.Microsecond), e.Writes, e.Error)
	}
	return t.Flush()
}

// WriteExplanation writes an explanation as text.
func WriteExplanation(w io.Writer, e *Explanation, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	switch {
	case e.Kind == "":
		fmt.Fprintf(t, "%s\tof any kind\n", e.Object)
	case e.Cached == nil:
		fmt.Fprintf(t, "%s %s\tdoes not exist (any more)\n", e.Kind, e.Object)
	default:
		fmt.Fprintf(t, "%s %s\t%s\n", e.Kind, e.Object, e.Cached.text(now))
	}
	for _, o := range e.Owners {
		fmt.Fprintf(t, "owned by %s %s\t%s\n", o.Kind, o.Name, o.text(now))
	}
	if len(e.Loops) == 0 {
		fmt.Fprintf(t, "\nNo controller has a record of reconciling it. %s\n", memory)
	}
	for _, l := range e.Loops {
		fmt.Fprintf(t, "\n%s reconciled %s\n", l.Loop, l.Of)
		if l.Running != "" {
			fmt.Fprintf(t, "  running now, for %s\n", l.Running)
		}
		switch {
		case l.Next.IsZero():
			fmt.Fprintf(t, "  next reconcile: when something changes\n")
		default:
			fmt.Fprintf(t, "  next reconcile: %s, or when something changes\n", until(l.Next, now))
		}
		fmt.Fprintf(t, "  AGE\tOUTCOME\tTOOK\tWRITES\tERROR\n")
		for _, r := range e.shown(l) {
			fmt.Fprintf(t, "  %s\t%s\t%s\t%d\t%s\n", duration(now.Sub(r.At)), r.Outcome, duration(r.Took), r.Writes, r.Error)
		}
	}
	return t.Flush()
}

// shown returns the entries of a look that fit on a screen.
func (e *Explanation) shown(l LoopHistory) []kit.Entry { return l.Entries[:min(len(l.Entries), 20)] }

func (c Cached) text(now time.Time) string {
	s := fmt.Sprintf("created %s ago, resourceVersion %s, uid %s", duration(now.Sub(c.Created)), c.ResourceVersion, c.UID)
	if !c.Deleting.IsZero() {
		s += fmt.Sprintf(", deletion requested %s ago", duration(now.Sub(c.Deleting)))
	}
	return s
}

func when(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format(time.RFC3339)
}

// ago returns how long ago something was.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return duration(now.Sub(t)) + " ago"
}

// until returns when something is due.
func until(t, now time.Time) string {
	if !t.After(now) {
		return "due"
	}
	return "in " + duration(t.Sub(now))
}

// duration formats a duration in one or two units.
func duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d <= 0:
		return "0 s"
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 2*day:
		return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d/day))
}
