package monitoring

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func TestParse(t *testing.T) {
	for expr, want := range map[string]Expression{
		`up`: {Metrics: []Reference{{"up", nil}}},
		`sum by (a, b) (rate(x_total{c="1", d=~"by (e)"}[5m])) / 2 > bool 1e3`: {
			Metrics: []Reference{{"x_total", []string{"c", "d"}}}, Grouped: []string{"a", "b"}},
		`sum(x) by (a) and on (b) group_left y{} unless z offset 5m`: {
			Metrics: []Reference{{"x", nil}, {"y", nil}, {"z", nil}}, Grouped: []string{"a", "b"}},
		`histogram_quantile(0.9, sum without(p) (rate(h_bucket[$__rate_interval:1m]))) # sum(no)`: {
			Metrics: []Reference{{"h_bucket", nil}}, Grouped: []string{"p"}},
		`absent(a == 1) or vector(0)`: {Metrics: []Reference{{"a", nil}}},
		`a{b="x\"}y", c!='}',}`:       {Metrics: []Reference{{"a", []string{"b", "c"}}}},
	} {
		if got, err := Parse(expr); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", expr, got, err, want)
		}
	}
	for _, expr := range []string{`sum(x`, `x)`, `x{a="1"`, `x{a}`, `x[5m`, `{a="1"}`, `x ? y`, `x{a="1" b="2"}`} {
		if got, err := Parse(expr); err == nil {
			t.Errorf("%s: no error, but %+v", expr, got)
		}
	}
}

func TestExposed(t *testing.T) {
	page := "# HELP a_total x\n# TYPE a_total counter\na_total{z=\"1, y=\\\"2\\\"\",b=\"} 1\"} 3\n# TYPE go_x gauge\ngo_x 1\n# TYPE h histogram\nh_bucket{le=\"1\"} 0\nh_sum 0\n"
	want := map[string]Metric{"a_total": {Type: "counter", Labels: "b, z"}, "h": {Type: "histogram"}}
	if got := Exposed(page); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// target are labels that Prometheus adds to everything it scrapes, and metrics of its own or of every Go program.
var (
	target = []string{"job", "instance", "le"}
	usual  = map[string]bool{"up": true, "process_resident_memory_bytes": true, "process_cpu_seconds_total": true, "go_memstats_heap_alloc_bytes": true, "go_goroutines": true}
)

// TestExpressionsReadMetricsThatExist holds the alerts and the dashboard against docs/metrics.md, which is held against a
// running daemon by the scenarios.
func TestExpressionsReadMetricsThatExist(t *testing.T) {
	documented, err := Documented(root)
	if err != nil {
		t.Fatal(err)
	}
	uses, err := Uses(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(documented) < 60 || len(uses) < 40 {
		t.Fatalf("read %d metrics and %d expressions: the reader is wrong", len(documented), len(uses))
	}
	part := regexp.MustCompile(`_(bucket|sum|count)$`)
	for _, u := range uses {
		e, err := Parse(u.Expr)
		if err != nil {
			t.Errorf("%s: %v", u.Where, err)
			continue
		}
		known := slices.Clone(target)
		for _, r := range e.Metrics {
			m, ok := documented[r.Metric]
			if base := part.ReplaceAllString(r.Metric, ""); !ok && documented[base].Type == "histogram" {
				m, ok = documented[base], true
			}
			if !ok && !usual[r.Metric] {
				t.Errorf("%s: there is no metric %s", u.Where, r.Metric)
			}
			labels := append(slices.Clone(target), strings.Split(m.Labels, ", ")...)
			known = append(known, labels...)
			for _, l := range r.Labels {
				if !slices.Contains(labels, l) {
					t.Errorf("%s: %s has no label %s", u.Where, r.Metric, l)
				}
			}
			if len(r.Labels) == 0 || r.Labels[0] != "job" {
				t.Errorf("%s: %s is not limited to the job", u.Where, r.Metric)
			}
		}
		if len(e.Metrics) == 0 {
			t.Errorf("%s reads no metric", u.Where)
		}
		for _, l := range e.Grouped {
			if !slices.Contains(known, l) {
				t.Errorf("%s: groups by %s, which none of its metrics has", u.Where, l)
			}
		}
	}
}

func TestAlertsSayWhatToDo(t *testing.T) {
	alerts, err := Alerts(root)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(root + "/docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	inText := regexp.MustCompile(`\$labels\.([a-z_]+)`)
	for _, a := range alerts {
		if !regexp.MustCompile("(?m)^\\| `" + a.Alert + "` \\| .+ \\| .+ \\|$").Match(doc) {
			t.Errorf("docs/metrics.md does not say what to do about %s", a.Alert)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) || a.Annotations["summary"] == "" {
			t.Errorf("%s has labels %v, annotations %v", a.Alert, a.Labels, a.Annotations)
		}
		e, err := Parse(a.Expr)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range inText.FindAllStringSubmatch(a.Annotations["summary"], -1) {
			if aggregated := strings.Contains(a.Expr, "by ("); aggregated && !slices.Contains(e.Grouped, m[1]) {
				t.Errorf("%s says %s, which its expression drops", a.Alert, m[0])
			}
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(Orrery[A-Za-z]+)` ").FindAllSubmatch(doc, -1) {
		if !slices.ContainsFunc(alerts, func(a Alert) bool { return a.Alert == string(m[1]) }) {
			t.Errorf("docs/metrics.md has the alert %s, and the manifest does not", m[1])
		}
	}
}

func TestDashboardIsOneThatGrafanaShows(t *testing.T) {
	d, err := ReadDashboard(root)
	if err != nil {
		t.Fatal(err)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	variables := []string{"__rate_interval", "labels"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("panel %d, %q: want an id of its own, a title and a query", p.ID, p.Title)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.W < 1 || g.X+g.W > 24 {
			t.Errorf("%q is outside: %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%q lies over %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			for _, v := range regexp.MustCompile(`\$([a-zA-Z_]+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !slices.Contains(variables, v[1]) {
					t.Errorf("%q: no variable %s", p.Title, v[1])
				}
			}
		}
	}
	if d.UID == "" || len(ids) < 20 {
		t.Errorf("dashboard %q has %d panels", d.UID, len(ids))
	}
}
