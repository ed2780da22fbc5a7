package status

// write writes the page of a loop.
func (v loopView) write(m *markup) {
	m.head(v.frame)
	writeWayBack(m)
	m.raw(`<section class="hero"><h1 class="name">`)
	m.text(v.Name + " ")
	m.pill(v.State)
	m.raw("</h1>")
	m.unless("p", v.Summary, "class", "dim")
	m.unless("p", v.Why, "class", "whybig")
	m.raw("</section>\n", `<section class="tiles two" aria-label="The last 15 minutes"><div class="tile"><h2>Reconciles</h2><p class="figure">`)
	m.text(v.RateText)
	m.raw(` <span class="unit">a second</span></p>`)
	m.spark(v.Rate)
	m.raw(`</div><div class="tile"><h2>Latency</h2>`)
	m.element("p", v.LatencyText, "class", "figure")
	m.spark(v.Latency)
	m.raw("</div></section>\n")
	m.section("facts", "Since the start")
	m.raw(`<dl class="facts">`)
	for _, f := range v.Facts {
		m.raw("<div>")
		m.element("dt", f.Name)
		m.element("dd", f.Value)
		m.raw("</div>")
	}
	m.raw("</dl></section>\n")
	v.writeRunning(m)
	v.writePanics(m)
	v.writeOutcomes(m)
	v.writeSources(m)
	m.foot(v.frame)
}

func writeWayBack(m *markup) {
	m.raw(`<nav aria-label="Breadcrumb">`)
	m.element("a", "Controllers", "href", Path)
	m.raw("</nav>\n")
}

func (v loopView) writeRunning(m *markup) {
	if len(v.Running) == 0 {
		return
	}
	m.section("running", "In work")
	m.table("plain", "Keys in work", "Key", "#For")
	for _, r := range v.Running {
		m.raw("<tr>")
		m.element("th", r.Name, "scope", "row")
		m.cells("#For", r.Value)
		m.raw("</tr>\n")
	}
	m.endTable()
	m.raw("</section>\n")
}

func (v loopView) writePanics(m *markup) {
	if len(v.Panics) == 0 {
		return
	}
	m.section("panics", "Panics")
	for _, p := range v.Panics {
		m.raw(`<div class="panic"><p>`)
		m.element("strong", p.Value)
		m.raw("<br>")
		m.text(p.Where + ", " + p.Ago)
		m.raw("</p>")
		if p.Stack != "" {
			m.raw("<details><summary>Stack</summary>")
			m.element("pre", p.Stack)
			m.raw("</details>")
		}
		m.raw("</div>\n")
	}
	m.raw("</section>\n")
}

func (v loopView) writeOutcomes(m *markup) {
	title := "Last outcomes"
	if v.Search != "" {
		title = "Found"
	}
	m.section("outcomes", title)
	m.raw(`<form class="ask" method="get">`)
	m.field("grow", "Search the keys", "q", v.Search, v.Placeholder, false)
	m.raw("<button>Search</button></form>\n")
	m.unless("p", v.Found, "class", "dim")
	switch {
	case len(v.Entries) > 0:
		writeEntries(m, v.Entries)
	case v.Search != "":
		m.element("p", "Nothing recorded.", "class", "calm")
	default:
		m.element("p", "Nothing has been reconciled yet.", "class", "calm")
	}
	m.raw("</section>\n")
}

func (v loopView) writeSources(m *markup) {
	m.section("sources", "Sources")
	m.table("plain", "Sources of the loop's keys", "Source", "State")
	for _, s := range v.Sources {
		m.raw("\n<tr>")
		m.element("th", s.Name, "scope", "row")
		m.cell("State")
		m.pill(s.State)
		m.unless("div", s.Error, "class", "error")
		m.raw("</td></tr>")
	}
	m.endTable()
	m.raw("</section>\n")
}

// writeEntries writes a table of reconciles.
func writeEntries(m *markup, entries []entryRow) {
	m.table("entries", "Reconciles, the newest first", "When", "Key", "Outcome", "#Took", "#Writes", "Next reconcile")
	for _, e := range entries {
		m.raw("\n<tr>")
		m.cell("When")
		m.element("time", e.Ago, "title", e.At+" UTC")
		m.close("td")
		m.open("th", "scope", "row", "data-name", "Key")
		m.element("a", e.Key, "href", e.KeyLink)
		m.close("th")
		m.cell("Outcome")
		m.pill(e.Outcome)
		m.unless("div", e.Error, "class", "error")
		m.close("td")
		m.cells("#Took", e.Took, "#Writes", e.Writes)
		m.cell("Next reconcile")
		if e.Next != "" {
			m.text(e.Next)
		} else {
			m.element("span", "on a change", "class", "dim")
		}
		m.raw("</td></tr>")
	}
	m.endTable()
}

// write writes what happened to an object.
func (v explainView) write(m *markup) {
	m.head(v.frame)
	writeWayBack(m)
	m.raw(`<section class="hero"><h1 class="name">`)
	if v.Kind != "" {
		m.text(v.Kind + " ")
	}
	m.text(v.Object)
	m.raw("</h1>")
	m.unless("p", v.Subject, "class", "dim")
	for _, o := range v.Owners {
		m.element("p", "owned by "+o.Name+" · "+o.Value, "class", "dim")
	}
	m.raw("</section>\n")
	writeAsk(m, v.Kind, v.Object)
	m.unless("p", v.Error, "class", "whybig")
	for _, l := range v.Loops {
		m.raw("<section><h2>")
		m.element("a", l.Loop, "href", l.Link)
		m.element("span", " reconciled "+l.Of, "class", "dim")
		m.raw("</h2>")
		running := ""
		if l.Running != "" {
			running = "Running now, for " + l.Running + ". "
		}
		m.element("p", running+"Next reconcile: "+l.Next+".", "class", "dim")
		writeEntries(m, l.Entries)
		m.raw("</section>\n")
	}
	if v.Error == "" && len(v.Loops) == 0 {
		m.element("p", "No controller has a record of reconciling it. "+memory, "class", "calm")
	}
	m.foot(v.frame)
}

// memory says how far back the records of a loop go.
const memory = "A loop records its last 1024 reconciles and, beyond these, its last 256 failures."

// unknownView says that there is no such controller.
type unknownView struct {
	frame
	Why string
}

func (v unknownView) write(m *markup) {
	m.head(v.frame)
	writeWayBack(m)
	m.raw("<h1>Not here</h1>")
	m.element("p", v.Why)
	m.foot(v.frame)
}
