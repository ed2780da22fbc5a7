package status

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/manager"
)

// The views below are what the pages show: everything is text already, so that writing them decides nothing.

// frame is common to all pages.
type frame struct {
	Title, Component, Version string
	Now                       string
	Refresh                   int    // seconds; 0: never
	Pause, Resume, JSON       string // links to the same page with that changed
	Home                      string
}

const (
	refreshDefault = 10
	refreshLongest = 3600
)

func (p *Page) frame(req *http.Request, title string, now time.Time) frame {
	refresh := refreshDefault
	if n, err := strconv.Atoi(req.URL.Query().Get("refresh")); err == nil && n >= 0 {
		refresh = min(n, refreshLongest)
	}
	return frame{
		Title: title, Component: p.c.Component, Version: p.c.Version, Now: now.UTC().Format("2006-01-02 15:04:05 UTC"),
		Refresh: refresh, Pause: with(req.URL, "refresh", "0"), Resume: with(req.URL, "refresh", ""), JSON: with(req.URL, "format", "json"), Home: Path,
	}
}

// with returns the URL of a page with one query parameter changed.
func with(u *url.URL, key, value string) string {
	q := u.Query()
	if q.Set(key, value); value == "" {
		q.Del(key)
	}
	if len(q) == 0 {
		return u.Path
	}
	return u.Path + "?" + q.Encode()
}

// pill is a short word with a colour.
type pill struct{ Class, Text string }

// tile is a figure at the top of the overview.
type tile struct {
	Name, Value, Unit, Note string
	Chart                   *chart
}

// row is a loop in the table of the overview.
type row struct {
	Name, Link, Summary string
	State               pill
	Why                 string // what is wrong, or what the loop waits for
	Queue, QueueNote    string
	Rate, Latency       string
	RateChart           chart
	LatencyChart        chart
	LastSuccess         string
	Errors              []string
}

// notice is something that needs attention.
type notice struct{ Class, Subject, Link, Text string }

type overviewView struct {
	frame
	Role     pill
	RoleNote string
	Up       string
	Tiles    []tile
	Notices  []notice
	Calm     string
	DryRun   *dryView
	Rows     []row
	Caches   []cacheRow
	CacheSum string
	Idle     []NotRunning
	Runtime  string
}

type cacheRow struct {
	Kind, Version, Objects, Bytes string
	State                         pill
	Error                         string
}

func (p *Page) overviewView(req *http.Request, now time.Time) overviewView {
	o := p.Overview(now)
	v := overviewView{
		frame: p.frame(req, "Controllers", now), Up: duration(now.Sub(o.Started)), Idle: o.NotRunning,
		Runtime: fmt.Sprintf("%s of memory, %d goroutines", size(int64(o.Process.Memory)), o.Process.Goroutines),
	}
	v.Role, v.RoleNote = role(o)
	for _, l := range o.Loops {
		v.Rows = append(v.Rows, p.row(l, now))
		v.Notices = append(v.Notices, notices(l, now)...)
	}
	if len(v.Notices) == 0 && len(v.Rows) > 0 {
		v.Calm = fmt.Sprintf("All %d loops are well.", len(v.Rows))
	}
	if o.DryRun != nil {
		v.DryRun = newDryView(*o.DryRun, now)
	}
	objects, bytes := 0, int64(0)
	for _, c := range o.Caches {
		objects, bytes = objects+c.Objects, bytes+c.Bytes
		v.Caches = append(v.Caches, cacheView(c))
		if c.Error != "" {
			v.Notices = append(v.Notices, notice{"bad", "Cache of " + c.Kind, "#caches", c.Error})
		}
	}
	v.CacheSum = fmt.Sprintf("%s objects of %d kinds, about %s", count(objects), len(o.Caches), size(bytes))
	v.Tiles = p.tiles(o, objects, bytes)
	return v
}

// role says who leads.
func role(o Overview) (pill, string) {
	l := o.Leadership
	switch {
	case o.DryRun != nil && (l.Leading || !l.Election):
		return pill{"wait", "Dry run"}, "writes nothing, under " + cmp.Or(l.Lease, "no lease")
	case !l.Election:
		return pill{"good", "Running"}, "no election: every process runs all"
	case l.Leading:
		return pill{"good", "Leading"}, "holds " + l.Lease + " as " + l.Holder + further(l.Further)
	case l.Holder == "":
		return pill{"idle", "Standby"}, "has not seen yet who holds " + l.Lease
	}
	return pill{"idle", "Standby"}, l.Holder + " leads with " + l.Lease
}

// further says who holds the further leases of a leading process.
func further(leases []manager.Leadership) string {
	var b strings.Builder
	for _, l := range leases {
		switch {
		case l.Leading:
			b.WriteString("; holds " + l.Lease)
		case l.Holder == "":
			b.WriteString("; waits for " + l.Lease)
		default:
			b.WriteString("; waits for " + l.Lease + ", which " + l.Holder + " holds")
		}
	}
	return b.String()
}

func (p *Page) tiles(o Overview, objects int, bytes int64) []tile {
	p.mu.Lock()
	all, requests := p.samples.all, p.samples.requests
	p.mu.Unlock()
	rate := func(p *point) float32 { return p.rate }
	bad := func(p *point) float32 { return p.failures }
	reconciles := newChart("reconciles a second", all.values(rate), all.values(bad), perSecond)
	sent := newChart("API requests a second", requests.values(rate), requests.values(bad), perSecond)
	queue := newChart("keys that wait", all.values(func(p *point) float32 { return p.queue }), nil, whole)
	waiting, running, oldest := 0, 0, time.Duration(0)
	for _, l := range o.Loops {
		waiting, running, oldest = waiting+l.QueueLength, running+len(l.Running), max(oldest, l.Oldest)
	}
	queueNote := fmt.Sprintf("%d in work", running)
	if waiting > 0 {
		queueNote += ", the oldest for " + duration(oldest)
	}
	return []tile{
		{Name: "Reconciles", Value: figure(mean(all.values(rate))), Unit: "a second", Note: failing(o), Chart: &reconciles},
		{Name: "API requests", Value: figure(o.Requests.PerSecond), Unit: "a second", Note: throttling(o.Requests), Chart: &sent},
		{Name: "Queue", Value: count(waiting), Unit: "keys wait", Note: queueNote, Chart: &queue},
		{Name: "Caches", Value: count(objects), Unit: "objects", Note: fmt.Sprintf("%d kinds, about %s", len(o.Caches), size(bytes))},
	}
}

func failing(o Overview) string {
	var failures, panics uint64
	for _, l := range o.Loops {
		failures += l.Totals[kit.OutcomeFailed] + l.Totals[kit.OutcomeTerminal]
		panics += l.Totals[kit.OutcomePanicked]
	}
	return fmt.Sprintf("%s failed, %s panicked since the start", count(int(failures)), count(int(panics)))
}

func throttling(r Requests) string {
	note := fmt.Sprintf("%s throttled by the server", count(int(r.Throttled)))
	if r.Failed > 0 {
		note += fmt.Sprintf(", %s failed", count(int(r.Failed)))
	}
	if r.Limit > 0 {
		note += fmt.Sprintf("; limited to %g a second here, %s waited", r.Limit, duration(r.Waited))
	}
	return note
}

// state returns the state of a loop as one word, and the reason for it.
func state(l Loop) (pill, string) {
	var missing []string
	for _, s := range l.Sources {
		if !s.Synced {
			missing = append(missing, strings.TrimPrefix(s.Name, "cache "))
		}
	}
	switch {
	case l.Degraded != "":
		return pill{"bad", "degraded"}, l.Degraded
	case l.Phase == "running":
		return pill{"good", "running"}, ""
	case l.Phase == "waiting for caches":
		return pill{"wait", "waiting"}, "for " + cmp.Or(strings.Join(slices.Compact(missing), ", "), "its caches")
	case l.Phase == "built":
		return pill{"idle", "ready"}, "not started: this process does not lead"
	}
	return pill{"idle", l.Phase}, ""
}

func (p *Page) row(l Loop, now time.Time) row {
	s := p.seriesOf(l.Name)
	r := row{
		Name: l.Name, Link: Path + "/" + l.Name, Summary: l.Summary, Queue: count(l.QueueLength),
		Rate: figure(l.PerSecond), Latency: "–", LastSuccess: ago(l.LastSuccess, now),
		RateChart: newChart("reconciles a second", s.values(func(p *point) float32 { return p.rate }),
			s.values(func(p *point) float32 { return p.failures }), perSecond),
		LatencyChart: newChart("slowest reconcile", s.values(func(p *point) float32 { return p.slowest }), nil, seconds),
	}
	r.State, r.Why = state(l)
	if n := len(l.Running); n > 0 {
		r.QueueNote = fmt.Sprintf("%d of %d in work", n, l.Workers)
	}
	if l.QueueLength > 0 {
		r.QueueNote = strings.TrimPrefix(r.QueueNote+", oldest "+duration(l.Oldest), ", ")
	}
	if l.Mean > 0 {
		r.Latency = duration(l.Mean)
	}
	for _, e := range []struct {
		n    uint64
		what string
	}{
		{l.Totals[kit.OutcomePanicked], "panicked"}, {l.Totals[kit.OutcomeFailed] + l.Totals[kit.OutcomeTerminal], "failed"},
		{l.Totals[kit.OutcomeConflict], "conflicts"},
	} {
		if e.n > 0 {
			r.Errors = append(r.Errors, count(int(e.n))+" "+e.what)
		}
	}
	return r
}

// notices returns what needs attention in a loop.
func notices(l Loop, now time.Time) (out []notice) {
	link := Path + "/" + l.Name
	if l.Degraded != "" {
		out = append(out, notice{"bad", l.Name, link, l.Degraded})
	}
	if len(l.Panics) > 0 {
		one := l.Panics[0]
		out = append(out, notice{"bad", l.Name, link, fmt.Sprintf("Panicked %s in %s of %s: %s", ago(one.At, now), one.Where, cmp.Or(one.Object, "no object"), one.Value)})
	}
	if l.Degraded == "" && !l.FailingSince.IsZero() {
		out = append(out, notice{"wait", l.Name, link, fmt.Sprintf("The last reconcile failed: %s", l.LastError)})
	}
	return out
}

func cacheView(c Cache) cacheRow {
	r := cacheRow{Kind: c.Kind, Version: c.Version, Objects: count(c.Objects), Bytes: size(c.Bytes), State: pill{"good", "up to date"}, Error: c.Error}
	if c.Form != cache.Structured.String() {
		r.Version += ", " + c.Form
	}
	switch {
	case c.Error != "":
		r.State = pill{"bad", "failing"}
	case !c.Synced:
		r.State = pill{"wait", "filling"}
	}
	return r
}

// figure formats a rate with a sensible number of digits.
func figure(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.1:
		return fmt.Sprintf("%.2f", v)
	case v < 10:
		return fmt.Sprintf("%.1f", v)
	}
	return count(int(v + 0.5))
}

func perSecond(v float64) string { return figure(v) }
func whole(v float64) string     { return count(int(v)) }
func seconds(v float64) string   { return duration(time.Duration(v * float64(time.Second))) }

// count formats a number with thin spaces between groups of three digits.
func count(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "\u202f" + text[at:]
	}
	return text
}

// size formats a number of bytes in a suitable unit.
func size(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	case n < 10<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%s MiB", count(int(n>>20)))
}
