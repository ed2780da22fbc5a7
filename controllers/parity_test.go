package controllers_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"orrery/controllers"
	"orrery/options"
)

// table returns the fields of each line after the header of one of the tables of upstream's facts.
func table(t *testing.T, name string) [][]string {
	t.Helper()
	data, err := os.ReadFile("../options/tables/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(data)) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return rows[1:]
}

// TestFlagsOfControllersEqualUpstreams compares the flags that descriptors register with upstream's, and makes sure
// that no flag of a controller in the list is left to the table of flags without effect.
func TestFlagsOfControllersEqualUpstreams(t *testing.T) {
	s := options.NewCMServer()
	s.Controllers = controllers.All(&s.Shared)
	built := s.KnownControllers()
	fss := s.Flags()
	for _, row := range table(t, "flags.tsv") {
		name, kind, value, section := row[0], row[1], row[2], strings.ToLower(row[3])
		if !slices.Contains(built, section) {
			continue
		}
		f := fss.FlagSets[section].Lookup(name)
		if f == nil {
			t.Errorf("%s: --%s is missing", section, name)
			continue
		}
		if strings.HasPrefix(f.Usage, "Accepted without effect") {
			t.Errorf("%s: no descriptor registers --%s", section, name)
		}
		got, _ := pflag.UnquoteUsage(f)
		if got == "" {
			got = "bool"
		}
		if zero := f.DefValue == "false" || f.DefValue == "0" || f.DefValue == "0s"; got != kind || f.DefValue != value && !(zero && value == "") {
			t.Errorf("--%s is a %s that is %q by default, want a %s that is %q", name, got, f.DefValue, kind, value)
		}
	}
	seen := map[string]string{}
	for section, fs := range fss.FlagSets {
		fs.VisitAll(func(f *pflag.Flag) {
			if other, ok := seen[f.Name]; ok {
				t.Errorf("--%s is in the sections %q and %q", f.Name, section, other)
			}
			seen[f.Name] = section
		})
	}
	if err := s.Validate(built, s.DisabledByDefault()); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

// TestDescriptorsEqualUpstreams compares what --controllers, credentials and events go by.
func TestDescriptorsEqualUpstreams(t *testing.T) {
	upstream := map[string][]string{}
	for _, row := range table(t, "controllers.tsv") {
		upstream[row[0]] = row
	}
	for _, d := range controllers.All(new(options.NewShared())) {
		row, ok := upstream[d.Name]
		if !ok {
			continue // one of our own
		}
		var aliases, gates []string
		if row[1] != "-" {
			aliases = strings.Split(row[1], ",")
		}
		if row[4] != "-" {
			gates = strings.Split(row[4], ",")
		}
		var got []string
		for _, g := range d.FeatureGates {
			got = append(got, string(g))
		}
		if !slices.Equal(d.Aliases, aliases) || d.ServiceAccount != row[2] || d.OffByDefault != (row[3] == "off") || !slices.Equal(got, gates) {
			t.Errorf("%s: aliases %q, account %q, off %t, gates %q; want %q", d.Name, d.Aliases, d.ServiceAccount, d.OffByDefault, got, row[1:5])
		}
		if d.Summary == "" || d.Init == nil {
			t.Errorf("%s has no summary or no Init", d.Name)
		}
	}
}
