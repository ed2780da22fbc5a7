package scenarios

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"orrery/hack/localcluster/cluster"
)

// known is one entry of `orrery controllers -o json`.
type known struct {
	Name           string
	Aliases        []string
	Default        string
	ServiceAccount string
	Built          bool
}

func knownControllers(t *testing.T) (built []known) {
	t.Helper()
	out := must(exec.CommandContext(t.Context(), orreryBin, "controllers", "-o", "json").Output())(t)
	var all []known
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatal(err)
	}
	for _, k := range all {
		if k.Built {
			built = append(built, k)
		}
	}
	if len(built) < 11 {
		t.Fatalf("only %d controllers are built", len(built))
	}
	return built
}

// TestControllersFlag turns each controller off, and each on alone, under its name or an alias.
func TestControllersFlag(t *testing.T) {
	t.Parallel()
	e := start(t, cluster.Options{})
	all := knownControllers(t)
	var standard []string
	for _, k := range all {
		if k.Default == "on" {
			standard = append(standard, k.Name)
		}
	}
	if got := e.running(t, "*"); !same(got, standard) {
		t.Errorf("--controllers=* runs %v, want %v", got, standard)
	}
	for i, k := range all {
		name := k.Name
		if len(k.Aliases) > 0 && i%2 == 0 {
			name = k.Aliases[0]
		}
		t.Run(k.Name, func(t *testing.T) {
			want := slices.DeleteFunc(slices.Clone(standard), func(s string) bool { return s == k.Name })
			if got := e.running(t, "*,-"+name); !same(got, want) {
				t.Errorf("--controllers=*,-%s runs %v, want %v", name, got, want)
			}
			if got := e.running(t, name); !same(got, []string{k.Name}) {
				t.Errorf("--controllers=%s runs %v", name, got)
			}
		})
	}
}

func same(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// running starts the daemon with a choice of controllers and returns those that it runs. A controller with several
// loops names them <controller>/<loop>.
func (e *env) running(t *testing.T, selection string) (names []string) {
	t.Helper()
	p := e.manage(t, cluster.Orrery, "--leader-elect=false", "--controllers="+selection)
	defer func() {
		if err := p.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	eventually(t, "all are started", func() error {
		if !strings.Contains(logOf(t, p), `"Started all controllers"`) {
			return fmt.Errorf("not yet: %s", p.LogTail(1))
		}
		return nil
	})
	for _, loop := range must(visit(p, e.admin(t)).loops(t))(t) {
		name, _, _ := strings.Cut(loop, "/")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
