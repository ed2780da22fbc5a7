package status

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html"
	"strconv"
	"strings"
)

// The pages are written with the few functions below and not with html/template: it calls methods by name, which prevents
// the linker from removing unused methods and makes the program a quarter larger.

//go:embed style.css
var styleSheet string

// policy returns a Content-Security-Policy that allows the style sheet in the page and nothing else: no script, no other
// style, nothing to load.
func policy() string {
	sum := sha256.Sum256([]byte(styleSheet))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}

// constant is markup from the source code. A string from elsewhere cannot be passed as one without a conversion.
type constant string

// markup builds a page.
type markup struct{ strings.Builder }

// raw writes markup without escaping.
func (m *markup) raw(parts ...constant) {
	for _, p := range parts {
		m.WriteString(string(p))
	}
}

// text writes escaped text.
func (m *markup) text(s string) { m.WriteString(html.EscapeString(s)) }

// open begins an element. Attributes alternate between names and values; those with an empty value are left out.
func (m *markup) open(tag constant, attributes ...string) {
	m.raw("<", tag)
	for i := 0; i+1 < len(attributes); i += 2 {
		if attributes[i+1] == "" {
			continue
		}
		m.WriteString(" " + attributes[i] + `="`)
		m.text(attributes[i+1])
		m.raw(`"`)
	}
	m.raw(">")
}

func (m *markup) close(tag constant) { m.raw("</", tag, ">") }

// element writes an element that contains a text.
func (m *markup) element(tag constant, text string, attributes ...string) {
	m.open(tag, attributes...)
	m.text(text)
	m.close(tag)
}

// unless writes an element that contains a text, unless the text is empty.
func (m *markup) unless(tag constant, text string, attributes ...string) {
	if text != "" {
		m.element(tag, text, attributes...)
	}
}

func (m *markup) pill(p pill) { m.element("span", p.Text, "class", "pill "+p.Class) }

// spark draws a chart.
func (m *markup) spark(c chart) {
	m.open("svg", "class", "spark", "viewBox", "0 0 "+strconv.Itoa(chartWidth)+" "+strconv.Itoa(chartHeight),
		"preserveAspectRatio", "none", "role", "img", "aria-label", c.Label)
	m.element("title", c.Label)
	class := "line"
	if c.Level {
		class = "line level"
	} else {
		m.element("path", "", "class", "area", "d", c.Area)
	}
	if c.Bad != "" {
		m.element("path", "", "class", "badarea", "d", c.Bad)
	}
	m.element("path", "", "class", class, "d", c.Line)
	m.close("svg")
}

// table begins a table. heads are the titles of its columns; # marks a column of numbers.
func (m *markup) table(class, caption string, heads ...string) {
	m.open("table", "class", class)
	m.element("caption", caption, "class", "unseen")
	m.raw("<thead><tr>")
	for _, h := range heads {
		title, number := strings.CutPrefix(h, "#")
		numeric := ""
		if number {
			numeric = "num"
		}
		m.element("th", title, "scope", "col", "class", numeric)
	}
	m.raw("</tr></thead>\n<tbody>")
}

func (m *markup) endTable() { m.raw("</tbody></table>\n") }

// cell begins a table cell; name is the title of its column, which narrow screens show beside the cell.
func (m *markup) cell(name string) { m.open("td", "data-name", name) }

// cells writes cells, given as alternating names and texts; # in a name marks a number as in table.
func (m *markup) cells(pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		name, number := strings.CutPrefix(pairs[i], "#")
		numeric := ""
		if number {
			numeric = "num"
		}
		m.element("td", pairs[i+1], "data-name", name, "class", numeric)
	}
}

// section begins a section under a title.
func (m *markup) section(id, title string) {
	m.open("section", "aria-labelledby", id)
	m.element("h2", title, "id", id)
}

// field writes a form input with its label.
func (m *markup) field(class, label, name, value, placeholder string, required bool) {
	m.open("label", "class", class)
	m.text(label)
	m.raw("<input")
	for _, a := range [][2]string{{"name", name}, {"value", value}, {"placeholder", placeholder}, {"autocomplete", "off"}, {"spellcheck", "false"}, {"autocapitalize", "off"}} {
		m.WriteString(" " + a[0] + `="`)
		m.text(a[1])
		m.raw(`"`)
	}
	if required {
		m.raw(" required")
	}
	m.raw("></label>")
}

// head begins a page.
func (m *markup) head(f frame) {
	m.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n")
	if f.Refresh > 0 {
		m.open("meta", "http-equiv", "refresh", "content", strconv.Itoa(f.Refresh))
		m.raw("\n")
	}
	m.element("title", f.Title+" · Orrery")
	m.raw("\n<style>")
	m.WriteString(styleSheet)
	m.raw("</style>\n</head>\n<body>\n<header class=\"top\">")
	m.open("a", "class", "brand", "href", f.Home)
	m.raw(mark, "<span>Orrery</span></a>")
	m.open("p", "class", "what")
	m.text(f.Component)
	m.element("span", f.Version, "class", "dim version")
	m.raw("</p></header>\n<main>\n")
}

// mark is a sun with two planets.
const mark constant = `<svg class="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false"><circle class="orbit" cx="16" cy="16" r="14"/>` +
	`<circle class="orbit" cx="16" cy="16" r="8.5"/><circle class="sun" cx="16" cy="16" r="3.2"/>` +
	`<circle class="planet" cx="25.9" cy="6.1" r="2.2"/><circle class="planet" cx="9.2" cy="20.9" r="1.7"/></svg>`

// foot ends a page.
func (m *markup) foot(f frame) {
	m.raw("</main>\n<footer><p>")
	m.text(f.Now + " · ")
	if f.Refresh > 0 {
		m.text("refreshed every " + strconv.Itoa(f.Refresh) + " s · ")
		m.element("a", "Pause", "href", f.Pause)
	} else {
		m.text("not refreshed · ")
		m.element("a", "Refresh", "href", f.Resume)
	}
	m.text(" · ")
	m.element("a", "JSON", "href", f.JSON)
	m.raw("</p></footer>\n</body>\n</html>\n")
}
