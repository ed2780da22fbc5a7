package status

import (
	"fmt"
	"io"
	"time"
)

// dryView shows what a dry run would have written.
type dryView struct {
	Note string
	Rows []dryRow
}

type dryRow struct{ Write, Object, Loop, Link, Detail, Count, First, Last string }

func newDryView(d DryRun, now time.Time) *dryView {
	v := &dryView{Note: d.note()}
	for _, w := range d.Writes {
		v.Rows = append(v.Rows, dryRow{
			Write: w.Verb + " " + w.Resource, Object: w.Object, Loop: w.Loop, Link: Path + "/" + w.Loop, Detail: w.Detail,
			Count: count(w.Count), First: ago(w.First, now), Last: ago(w.Last, now),
		})
	}
	return v
}

func (d DryRun) note() string {
	note := fmt.Sprintf("%d writes it would make now; %d more were wanted for a while, until there was no need any more.", len(d.Writes), d.Settled)
	if d.Dropped > 0 {
		note += fmt.Sprintf(" %d are not listed, as there are too many.", d.Dropped)
	}
	return note
}

// write writes the section of the overview; nothing if the process is not in a dry run.
func (v *dryView) write(m *markup) {
	if v == nil {
		return
	}
	m.section("dry-run", "Would have written")
	m.element("p", "This is a dry run: every write is sent to be validated, and none is stored. "+v.Note, "class", "dim")
	if len(v.Rows) > 0 {
		m.table("plain", "What would have been written", "Write", "Object", "By", "#Times", "First", "Last")
	}
	for _, r := range v.Rows {
		m.raw("\n<tr>")
		m.element("th", r.Write, "scope", "row")
		m.cell("Object")
		m.text(r.Object)
		m.unless("div", r.Detail, "class", "why")
		m.close("td")
		m.cell("By")
		m.element("a", r.Loop, "href", r.Link)
		m.close("td")
		m.cells("#Times", r.Count, "First", r.First, "Last", r.Last)
		m.raw("</tr>")
	}
	if len(v.Rows) > 0 {
		m.endTable()
	}
	m.raw("</section>\n")
}

// writeDryRun writes the section as text.
func writeDryRun(t io.Writer, d *DryRun, now time.Time) {
	if d == nil {
		return
	}
	fmt.Fprintf(t, "\nWOULD HAVE WRITTEN: %s\n", d.note())
	for i, w := range d.Writes {
		if i == 0 {
			fmt.Fprintf(t, "WRITE\tOBJECT\tBY\tTIMES\tFIRST\tLAST\tWHAT\n")
		}
		fmt.Fprintf(t, "%s %s\t%s\t%s\t%d\t%s\t%s\t%s\n", w.Verb, w.Resource, w.Object, w.Loop, w.Count, ago(w.First, now), ago(w.Last, now), w.Detail)
	}
}
