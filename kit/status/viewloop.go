package status

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"orrery/kit"
)

// entryRow is a reconcile in a table.
type entryRow struct {
	Key, KeyLink, Ago, At, Took, Next, Error string
	Outcome                                  pill
	Writes                                   string
}

func (p *Page) entryRows(loop string, entries []kit.Entry, now time.Time) []entryRow {
	rows := make([]entryRow, 0, len(entries))
	seen := map[string]bool{}
	for _, e := range entries {
		r := entryRow{
			Key: e.Key, KeyLink: Path + "/" + loop + "?q=" + url.QueryEscape(e.Key), Ago: ago(e.At, now), At: e.At.UTC().Format("15:04:05.000"), Took: duration(e.Took),
			Error: e.Error, Outcome: pill{outcomeClass(e.Outcome), string(e.Outcome)}, Writes: "–",
		}
		if e.Writes > 0 {
			r.Writes = count(e.Writes)
		}
		switch {
		case seen[e.Key]:
			r.Next = "–" // superseded by a later reconcile
		case !e.Next.IsZero():
			r.Next = until(e.Next, now)
		}
		seen[e.Key] = true
		rows = append(rows, r)
	}
	return rows
}

func outcomeClass(o kit.Outcome) string {
	switch o {
	case kit.OutcomeFailed, kit.OutcomePanicked, kit.OutcomeTerminal:
		return "bad"
	case kit.OutcomeConflict, kit.OutcomeDropped, kit.OutcomeCancelled:
		return "wait"
	}
	return "good"
}

// fact is a name and a value.
type fact struct{ Name, Value string }

type loopView struct {
	frame
	Name, Summary string
	State         pill
	Why           string
	Facts         []fact
	Rate, Latency chart
	RateText      string
	LatencyText   string
	Running       []fact
	Sources       []sourceRow
	Panics        []panicRow
	Search        string
	Found         string
	Entries       []entryRow
	Placeholder   string
}

type sourceRow struct {
	Name  string
	State pill
	Error string
}

type panicRow struct{ Where, Ago, Value, Stack string }

func (p *Page) loopView(req *http.Request, l loopJSON, now time.Time) loopView {
	s := p.seriesOf(l.Name)
	v := loopView{
		frame: p.frame(req, l.Name, now), Name: l.Name, Summary: l.Summary, Search: l.Search, Placeholder: cmp.Or(l.Kind, "key") + ", as namespace/name or a part of it",
		Rate: newChart("reconciles a second", s.values(func(p *point) float32 { return p.rate }),
			s.values(func(p *point) float32 { return p.failures }), perSecond),
		Latency:  newChart("slowest reconcile", s.values(func(p *point) float32 { return p.slowest }), nil, seconds),
		RateText: figure(l.PerSecond), LatencyText: "–", Facts: facts(l.Loop, now),
	}
	if l.Mean > 0 {
		v.LatencyText = fmt.Sprintf("%s, the slowest %s", duration(l.Mean), duration(l.Slowest))
	}
	v.State, v.Why = state(l.Loop)
	for _, r := range l.Running {
		v.Running = append(v.Running, fact{r.Key, duration(r.Age)})
	}
	for _, src := range l.Sources {
		r := sourceRow{Name: src.Name, State: pill{"good", "synced"}, Error: src.Error}
		if !src.Synced {
			r.State = pill{"wait", "not yet"}
		}
		v.Sources = append(v.Sources, r)
	}
	for _, one := range l.Panics {
		v.Panics = append(v.Panics, panicRow{strings.TrimSpace(one.Where + " of " + cmp.Or(one.Object, "no object")), ago(one.At, now), one.Value, one.Stack})
	}
	entries := l.Last
	if l.Search != "" {
		entries, v.Found = l.Matches, fmt.Sprintf("%d recorded reconciles of keys with “%s” in them. %s", len(l.Matches), l.Search, memory)
	}
	v.Entries = p.entryRows(l.Name, entries, now)
	return v
}

func facts(l Loop, now time.Time) []fact {
	f := []fact{
		{"Queue", fmt.Sprintf("%s wait, %d of %d workers busy", count(l.QueueLength), len(l.Running), l.Workers)},
		{"Last success", ago(l.LastSuccess, now)},
		{"Reconciles", count(int(total(l)))},
		{"Failed", fmt.Sprintf("%s, and %s for good", count(int(l.Totals[kit.OutcomeFailed])), count(int(l.Totals[kit.OutcomeTerminal])))},
		{"Panicked", count(int(l.Totals[kit.OutcomePanicked]))},
		{"Retries", fmt.Sprintf("%s, of which conflicts %s", count(int(l.Retries)), count(int(l.Totals[kit.OutcomeConflict])))},
		{"Writes", count(int(l.Writes))},
		{"Put off", fmt.Sprintf("%s times, until the cache showed its own writes", count(int(l.Skips)))},
	}
	if l.QueueLength > 0 {
		f[0].Value += ", the oldest for " + duration(l.Oldest)
	}
	return f
}

func total(l Loop) (n uint64) {
	for _, c := range l.Totals {
		n += c
	}
	return n
}

type explainView struct {
	frame
	Kind, Object, Error string
	Subject             string
	Owners              []fact
	Loops               []historyView
}

type historyView struct {
	Loop, Link, Of, Running, Next string
	Entries                       []entryRow
}

func (p *Page) explainView(req *http.Request, e *Explanation, kind, object string, err error, now time.Time) explainView {
	v := explainView{frame: p.frame(req, object, now), Kind: kind, Object: object}
	if err != nil {
		v.Error, v.Refresh = err.Error(), 0
		return v
	}
	switch {
	case e.Cached != nil:
		v.Subject = e.Cached.text(now)
	case e.Kind != "":
		v.Subject = "is not in the cache: it does not exist, or no longer does"
	}
	for _, o := range e.Owners {
		v.Owners = append(v.Owners, fact{o.Kind + " " + o.Name, o.text(now)})
	}
	for _, l := range e.Loops {
		next := "when something changes"
		if !l.Next.IsZero() {
			next = until(l.Next, now) + ", or when something changes"
		}
		v.Loops = append(v.Loops, historyView{
			Loop: l.Loop, Link: Path + "/" + l.Loop, Of: l.Of, Running: l.Running, Next: next, Entries: p.entryRows(l.Loop, e.shown(l), now),
		})
	}
	return v
}
