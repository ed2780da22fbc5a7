package status

// write writes the page of the whole process.
func (v overviewView) write(m *markup) {
	m.head(v.frame)
	m.raw(`<section class="hero" aria-label="Role"><h1>`)
	m.pill(v.Role)
	m.raw("</h1>")
	m.element("p", v.RoleNote+" · up "+v.Up+" · "+v.Runtime, "class", "dim")
	m.raw("</section>\n")
	v.writeTiles(m)
	v.writeNotices(m)
	v.DryRun.write(m)
	m.section("ask", "What happened to …")
	writeAsk(m, "", "")
	m.raw("</section>\n")
	v.writeLoops(m)
	v.writeIdle(m)
	v.writeCaches(m)
	m.foot(v.frame)
}

func (v overviewView) writeTiles(m *markup) {
	m.raw(`<section class="tiles" aria-label="At a glance">`)
	for _, t := range v.Tiles {
		m.raw(`<div class="tile">`)
		m.element("h2", t.Name)
		m.raw(`<p class="figure">`)
		m.text(t.Value + " ")
		m.element("span", t.Unit, "class", "unit")
		m.raw("</p>")
		if t.Chart != nil {
			m.spark(*t.Chart)
		}
		m.element("p", t.Note, "class", "dim")
		m.raw("</div>\n")
	}
	m.raw("</section>\n")
}

func (v overviewView) writeNotices(m *markup) {
	if len(v.Notices) == 0 {
		m.unless("p", v.Calm, "class", "calm")
		return
	}
	m.raw(`<section class="notices" aria-labelledby="attention"><h2 id="attention">Needs attention</h2><ul>`)
	for _, n := range v.Notices {
		m.open("li", "class", n.Class)
		m.element("a", n.Subject, "href", n.Link)
		m.element("p", n.Text)
		m.raw("</li>\n")
	}
	m.raw("</ul></section>\n")
}

// writeAsk writes the form that asks what happened to an object.
func writeAsk(m *markup, kind, object string) {
	m.open("form", "class", "ask", "method", "get", "action", Path)
	m.field("", "Kind", "kind", kind, "Deployment", false)
	m.field("grow", "Object", "object", object, "namespace/name", true)
	m.raw("<button>Explain</button></form>\n")
}

func (v overviewView) writeLoops(m *markup) {
	if len(v.Rows) == 0 {
		return
	}
	m.section("loops", "Controllers")
	m.table("loops", "Control loops: state, queue, rate, latency and errors",
		"Loop", "State", "#Queue", "Reconciles / s", "Latency", "Last success", "Errors")
	for _, r := range v.Rows {
		m.raw("\n<tr><th scope=\"row\">")
		m.element("a", r.Name, "href", r.Link, "title", r.Summary)
		m.raw("</th>")
		m.cell("State")
		m.pill(r.State)
		m.unless("div", r.Why, "class", "why")
		m.close("td")
		m.open("td", "data-name", "Queue", "class", "num")
		m.text(r.Queue)
		m.unless("div", r.QueueNote, "class", "why")
		m.close("td")
		m.figureWith("Reconciles / s", r.Rate, r.RateChart)
		m.figureWith("Latency", r.Latency, r.LatencyChart)
		m.cells("Last success", r.LastSuccess)
		m.cell("Errors")
		for _, e := range r.Errors {
			m.element("div", e)
		}
		if len(r.Errors) == 0 {
			m.element("span", "none", "class", "dim")
		}
		m.raw("</td></tr>")
	}
	m.endTable()
	m.element("p", "Charts cover the last 15 minutes, with a point every 10 s, each with its own scale; the figures beside them cover the last "+
		"minute. Failures are red. Latency is the mean, and its chart shows the slowest.", "class", "dim small")
	m.raw("</section>\n")
}

// figureWith writes a cell with a figure and its chart.
func (m *markup) figureWith(name, figure string, c chart) {
	m.cell(name)
	m.raw(`<span class="with">`)
	class := "now"
	if figure == "0" || figure == "–" {
		class = "now dim"
	}
	m.element("span", figure, "class", class)
	m.spark(c)
	m.raw("</span></td>")
}

func (v overviewView) writeIdle(m *markup) {
	if len(v.Idle) == 0 {
		return
	}
	m.section("idle", "Not running")
	m.table("plain", "Controllers that are not running, and why", "Controller", "Why")
	for _, n := range v.Idle {
		m.raw("\n<tr>")
		m.element("th", n.Name, "scope", "row", "title", n.Summary)
		m.cells("Why", n.Why)
		m.raw("</tr>")
	}
	m.endTable()
	m.raw("</section>\n")
}

func (v overviewView) writeCaches(m *markup) {
	if len(v.Caches) == 0 {
		return
	}
	m.section("caches", "Caches")
	m.element("p", v.CacheSum+", without indexes. All controllers share them.", "class", "dim")
	m.table("plain caches", "Cached kinds", "Kind", "State", "#Objects", "#About")
	for _, c := range v.Caches {
		m.raw("\n<tr><th scope=\"row\">")
		m.text(c.Kind + " ")
		m.element("span", c.Version, "class", "dim")
		m.raw("</th>")
		m.cell("State")
		m.pill(c.State)
		m.unless("div", c.Error, "class", "error")
		m.close("td")
		m.cells("#Objects", c.Objects, "#About", c.Bytes)
		m.raw("</tr>")
	}
	m.endTable()
	m.raw("</section>\n")
}
