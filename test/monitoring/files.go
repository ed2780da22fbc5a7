package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// Use is an expression of an alert or of the dashboard, and where it stands.
type Use struct {
	Where string
	Expr  string
}

// Alert is a rule of the PrometheusRule.
type Alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// Alerts returns the rules of manifests/monitoring under root.
func Alerts(root string) ([]Alert, error) {
	data, err := os.ReadFile(filepath.Join(root, "manifests/monitoring/prometheusrule.yaml"))
	if err != nil {
		return nil, err
	}
	var rule struct {
		APIVersion, Kind string
		Metadata         struct {
			Name, Namespace string
			Labels          map[string]string
		}
		Spec struct {
			Groups []struct {
				Name  string
				Rules []Alert
			}
		}
	}
	if err := yaml.UnmarshalStrict(data, &rule); err != nil {
		return nil, err
	}
	var all []Alert
	for _, g := range rule.Spec.Groups {
		all = append(all, g.Rules...)
	}
	return all, nil
}

// Dashboard is what is checked of the dashboard.
type Dashboard struct {
	UID        string
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
	Panels []Panel
}

// Panel is one chart or figure.
type Panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ Expr string }
}

// ReadDashboard returns the dashboard of manifests/monitoring under root.
func ReadDashboard(root string) (*Dashboard, error) {
	data, err := os.ReadFile(filepath.Join(root, "manifests/monitoring/dashboard.json"))
	if err != nil {
		return nil, err
	}
	d := &Dashboard{}
	return d, json.Unmarshal(data, d)
}

var labelValues = regexp.MustCompile(`^label_values\((.*), [a-z_]+\)$`)

// Uses returns every expression of the alerts and of the dashboard.
func Uses(root string) ([]Use, error) {
	alerts, err := Alerts(root)
	if err != nil {
		return nil, err
	}
	d, err := ReadDashboard(root)
	if err != nil {
		return nil, err
	}
	var all []Use
	for _, a := range alerts {
		all = append(all, Use{"alert " + a.Alert, a.Expr})
	}
	for _, p := range d.Panels {
		for _, t := range p.Targets {
			all = append(all, Use{fmt.Sprintf("panel %q", p.Title), t.Expr})
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		m := labelValues.FindStringSubmatch(v.Query)
		if m == nil {
			return nil, fmt.Errorf("variable %s: cannot read %q", v.Name, v.Query)
		}
		all = append(all, Use{"variable " + v.Name, m[1]})
	}
	return all, nil
}

// Metric is a row of the table in docs/metrics.md, or a family on a page of metrics.
type Metric struct {
	Type   string
	Labels string // separated by ", " and sorted; without le
	Quiet  bool   // the table says that it is not there before its first use
	Text   string
}

var row = regexp.MustCompile("(?m)^\\| `([a-z_]+)`( \\*)? \\| (counter|gauge|histogram) \\| ([a-zA-Z_, ]*) \\| (.+) \\|$")

// Documented returns the metrics that docs/metrics.md under root lists.
func Documented(root string) (map[string]Metric, error) {
	data, err := os.ReadFile(filepath.Join(root, "docs/metrics.md"))
	if err != nil {
		return nil, err
	}
	all := map[string]Metric{}
	for _, m := range row.FindAllStringSubmatch(string(data), -1) {
		if _, twice := all[m[1]]; twice {
			return nil, fmt.Errorf("docs/metrics.md lists %s twice", m[1])
		}
		all[m[1]] = Metric{Type: m[3], Quiet: m[2] != "", Labels: strings.TrimSpace(m[4]), Text: m[5]}
	}
	return all, nil
}
