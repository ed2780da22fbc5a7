package merge

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"orrery/controllers/nodepool/record"
)

// A node that was made again with the record of its predecessor gets back what it had itself.
func TestANodeMadeAgainKeepsItsOwnValues(t *testing.T) {
	changed, removed := universe[0], universe[1]
	p := &Pool{Name: "p", UID: "p", Selector: labels.Everything(), Values: map[record.Key]string{changed: "pool", removed: "pool"}}
	gone := func(types.UID) bool { return true }
	first := Next(record.State{Labels: map[string]string{changed.Name: "first", removed.Name: "first"}}, record.Record{}, Input{Node: "first", Pools: []*Pool{p}})
	second := record.State{Labels: map[string]string{changed.Name: "second"}}
	in := Next(second, first.Record, Input{Node: "second", Pools: []*Pool{p}})
	if in.State.Labels[changed.Name] != "pool" || in.State.Labels[removed.Name] != "pool" || len(in.Drifted) > 0 {
		t.Errorf("within the pool it has %v, drifted %v", in.State.Labels, in.Drifted)
	}
	if out := Next(in.State, in.Record, Input{Node: "second", Gone: gone}); !same(out.State, second) {
		t.Errorf("afterwards it has %v, and had %v", out.State.Labels, second.Labels)
	}
	// As it was stored and restored by a backup, the record holds.
	in = Next(first.State, first.Record, Input{Node: "second", Pools: []*Pool{p}})
	if out := Next(in.State, in.Record, Input{Node: "second", Gone: gone}); out.State.Labels[changed.Name] != "first" {
		t.Errorf("a restored node has %v afterwards", out.State.Labels)
	}
}

// A pool that asks for the start-up taint has it.
func TestAStartupTaintThatAPoolAsksForStays(t *testing.T) {
	k := universe[4]
	startup := corev1.Taint{Key: k.Name, Effect: k.Effect}
	p := &Pool{Name: "p", UID: "p", Selector: labels.Everything(), Values: map[record.Key]string{k: ""}}
	in := Input{Node: "n", Pools: []*Pool{p}, Startup: &startup}
	out := Next(record.State{Taints: []corev1.Taint{startup}}, record.Record{}, in)
	if again := Next(out.State, out.Record, in); len(out.State.Taints) != 1 || !again.Same() {
		t.Errorf("taints %v, then %v", out.State.Taints, again.Changes)
	}
}

func TestAPlanShowsTheBeginningOfLongValues(t *testing.T) {
	long, short := strings.Repeat("ä", 1000), "x"
	for want, c := range map[string]Change{
		`add label a with value "x"`:            {Key: universe[0], To: &short},
		`remove label a`:                        {Key: universe[0], From: &long},
		`ä… (2000 bytes) to "x"`:                {Key: universe[3], From: &long, To: &short},
		`change annotation long from "x" to "ä`: {Key: universe[3], From: &short, To: &long},
	} {
		if got := strings.ReplaceAll(c.String(), `"… (`, `… (`); !strings.Contains(got, want) || len(got) > 200 {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
