package options

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"orrery/kit"
)

// all are the test controllers that run by default.
const all = "serviceaccount-token-controller deployment-controller replicaset-controller taint-eviction-controller nodepool-controller"

func TestSelectionOfControllers(t *testing.T) {
	without := func(name string) string {
		return strings.Join(slices.DeleteFunc(strings.Fields(all), func(s string) bool { return s == name }), " ")
	}
	for _, tc := range []struct{ args, want string }{
		{"", all},
		{"--controllers=*", all},
		{"--controllers=deployment-controller", "deployment-controller"},
		{"--controllers=deployment", "deployment-controller"},
		{"--controllers=deployment,replicaset-controller", "deployment-controller replicaset-controller"},
		{"--controllers=*,-deployment-controller", without("deployment-controller")},
		{"--controllers=-deployment,*", without("deployment-controller")},
		{"--controllers=*,tokencleaner", "serviceaccount-token-controller deployment-controller replicaset-controller taint-eviction-controller token-cleaner-controller nodepool-controller"},
		{"--controllers=*,token-cleaner-controller,-tokencleaner", "serviceaccount-token-controller deployment-controller replicaset-controller taint-eviction-controller token-cleaner-controller nodepool-controller"},
		{"--controllers=*,-token-cleaner-controller,tokencleaner", all},
		{"--controllers=-deployment,deployment-controller", ""},
		{"--controllers=deployment,-deployment-controller", "deployment-controller"},
		{"--controllers=-*", ""},
		{"--controllers=", ""},
		{"--controllers=deployment --controllers=replicaset", "deployment-controller replicaset-controller"},
		{"--controllers=podgroup-protection-controller", ""}, // its gate is off
		{"--controllers=podgroup-protection-controller --feature-gates=GenericWorkload=true", "podgroup-protection-controller"},
		{"--feature-gates=kube:GenericWorkload=true", all + " podgroup-protection-controller"},
	} {
		s := mustParse(t, strings.Fields(tc.args)...)
		var on []string
		for _, d := range s.Controllers {
			if s.IsEnabled(d) {
				on = append(on, d.Name)
			} else if s.DisabledReason(d) == "" {
				t.Errorf("%s: no reason why %s is disabled", tc.args, d.Name)
			}
		}
		want := strings.Fields(tc.want)
		slices.Sort(on)
		slices.Sort(want)
		if !slices.Equal(on, want) {
			t.Errorf("%s: got %q, want %q", tc.args, on, want)
		}
	}
}

// TestEachControllerStaysOffAndRunsAlone turns every controller of upstream off in turn, then runs only it, by each
// of its names.
func TestEachControllerStaysOffAndRunsAlone(t *testing.T) {
	var built []kit.Descriptor
	for _, row := range controllerRows() {
		// Without the aliases: they are known from the table too.
		built = append(built, kit.Descriptor{Name: row.name, OffByDefault: row.off})
	}
	for _, row := range controllerRows() {
		for _, name := range append([]string{row.name}, row.aliases...) {
			for _, selection := range [][]string{{"*", "-" + name}, {name}} {
				s := NewCMServer()
				s.Controllers, s.Selection = built, selection
				if err := validate(s); err != nil {
					t.Errorf("%q: %v", selection, err)
				}
				for _, d := range built {
					want := d.Name == row.name
					if selection[0] == "*" {
						want = d.Name != row.name && !d.OffByDefault
					}
					if got := s.IsEnabled(d); got != want {
						t.Errorf("%q: %s enabled = %t, want %t", selection, d.Name, got, want)
					}
				}
			}
		}
	}
}

func TestUnknownControllers(t *testing.T) {
	s := mustParse(t, "--controllers=*,-nope,-deplyoment,podgc,-job-controller,foo")
	checkLines(t, text(validate(s)), [][]string{
		{`"nope"`, "--ignore-unknown-controllers"},
		{`"deplyoment"`, `did you mean "deployment"?`},
		{`"foo" is not the name of a controller (`},
	})
	if strings.Contains(strings.Split(validate(s).Error(), "\n")[0], "did you mean") {
		t.Errorf("nothing is near nope: %v", validate(s))
	}
	unbuilt := [][]string{
		{"pod-garbage-collector-controller is not in this build and does not run"},
		{"-job-controller has no effect", "job-controller is not in this build"},
	}
	checkLines(t, strings.Join(s.Warnings(), "\n"), unbuilt)

	s = mustParse(t, "--controllers=*,-nope,podgc,-job-controller", "--ignore-unknown-controllers")
	if err := validate(s); err != nil {
		t.Error(err)
	}
	checkLines(t, strings.Join(s.Warnings(), "\n"), append([][]string{{`"nope"`}}, unbuilt...))
}

func TestDisabledByDefaultMustBeKnown(t *testing.T) {
	s := mustParse(t)
	checkLines(t, text(s.Validate([]string{"a"}, []string{"b"})), [][]string{{`"b"`}})
}

func TestControllersTable(t *testing.T) {
	var out bytes.Buffer
	if err := ControllersTable(&out, testControllers(), ""); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if want := 1 + len(controllerRows()) + 1; len(lines) != want { // the header and our own one
		t.Errorf("%d lines, want %d", len(lines), want)
	}
	if got := strings.Fields(lines[2]); !slices.Equal(got, []string{"deployment-controller", "deployment", "on", "deployment-controller", "yes", "rolls", "out"}) {
		t.Errorf("deployment-controller: %q", got)
	}
	out.Reset()
	if err := ControllersTable(&out, testControllers(), "json"); err != nil {
		t.Fatal(err)
	}
	var infos []ControllerInfo
	if err := json.Unmarshal(out.Bytes(), &infos); err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		if info.Summary == "" && info.Name != "nodepool-controller" {
			t.Errorf("%s has no summary", info.Name)
		}
		if info.Aliases == nil || info.FeatureGates == nil {
			t.Errorf("%s: lists must not be null in JSON", info.Name)
		}
	}
	i := slices.IndexFunc(infos, func(i ControllerInfo) bool { return i.Name == "bootstrap-signer-controller" })
	if got := infos[i]; got.Built || got.Default != "off" || got.ServiceAccount != "bootstrap-signer" {
		t.Errorf("bootstrap-signer-controller: %+v", got)
	}
	if err := ControllersTable(&out, nil, "yaml"); err == nil {
		t.Error("format yaml is accepted")
	}
}
