package layout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhatHintsAServiceAsksFor(t *testing.T) {
	const old, mode = corev1.DeprecatedAnnotationTopologyAwareHints, corev1.AnnotationTopologyMode
	for _, c := range []struct {
		notes map[string]string
		field string
		auto  bool
		want  string
	}{
		{nil, "", false, ""},
		{nil, "PreferClose", false, "PreferClose"},
		{nil, "PreferSameZone", false, "PreferSameZone"},
		{nil, "PreferSameNode", false, "PreferSameNode"},
		{nil, "PreferMoon", false, ""},
		{map[string]string{mode: "Auto"}, "", true, ""},
		{map[string]string{mode: "auto"}, "PreferClose", true, ""},
		{map[string]string{mode: "AUTO"}, "PreferClose", false, "PreferClose"},
		{map[string]string{old: "Auto"}, "", true, ""},
		{map[string]string{old: "Disabled", mode: "Auto"}, "", false, ""},
		{map[string]string{old: "Auto", mode: "Disabled"}, "PreferClose", true, ""},
	} {
		s := service(func(s *corev1.Service) {
			s.Annotations = c.notes
			if c.field != "" {
				s.Spec.TrafficDistribution = &c.field
			}
		})
		if Auto(s) != c.auto || Preference(s) != c.want {
			t.Errorf("annotations %v, field %q: auto %t, preference %q; want %t, %q", c.notes, c.field, Auto(s), Preference(s), c.auto, c.want)
		}
	}
}

// hintsOf lists the hints by pod: "0:zone-1/node-2".
func hintsOf(list []*discoveryv1.EndpointSlice) string {
	var out []string
	for _, s := range list {
		for _, e := range s.Endpoints {
			text := strings.TrimLeft(strings.TrimPrefix(e.TargetRef.Name, "pod-"), "0") + ":"
			if e.Hints != nil {
				for _, z := range e.Hints.ForZones {
					text += z.Name
				}
				for _, n := range e.Hints.ForNodes {
					text += "/" + n.Name
				}
			}
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestPreferenceHints(t *testing.T) {
	pods := []*corev1.Pod{pod(1, onNode("node-1")), pod(2, onNode("bare")), pod(3, onNode("node-1"), unready), pod(4, onNode("node-2"), terminating)}
	zone := func(p *Plan) { p.Prefer(false) }
	node := func(p *Plan) { p.Prefer(true) }
	none := func(p *Plan) { p.Strip() }
	w := newWorld(t, 100)
	for i, step := range []struct {
		hint    func(*Plan)
		changes int
		want    string
	}{
		{zone, 1, "1:zone-1 2: 3: 4:"},
		{zone, 0, "1:zone-1 2: 3: 4:"},
		{node, 1, "1:zone-1/node-1 2:/bare 3: 4:"},
		{node, 0, "1:zone-1/node-1 2:/bare 3: 4:"},
		{zone, 1, "1:zone-1 2: 3: 4:"},
		{none, 1, "1: 2: 3: 4:"},
		{none, 0, "1: 2: 3: 4:"},
	} {
		p := w.step(pods, step.hint)
		if got := hintsOf(w.slices); got != step.want || p.Changes() != step.changes {
			t.Errorf("step %d: %q with %d changes, want %q with %d", i, got, p.Changes(), step.want, step.changes)
		}
	}
	w.step(pods, node)
	unready(pods[0])
	if w.step(pods, node); hintsOf(w.slices) != "1: 2:/bare 3: 4:" {
		t.Errorf("an endpoint that is not ready any more keeps hints: %s", hintsOf(w.slices))
	}
}

func node(name, zone, cpu string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}, Allocatable: corev1.ResourceList{},
		},
	}
	if zone != "" {
		n.Labels[corev1.LabelTopologyZone] = zone
	}
	if cpu != "" {
		n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	for _, f := range change {
		f(n)
	}
	return n
}

func notReady(n *corev1.Node)                   { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
func ruler(n *corev1.Node)                      { n.Labels["node-role.kubernetes.io/control-plane"] = "" }
func oldRuler(n *corev1.Node)                   { n.Labels["node-role.kubernetes.io/master"] = "" }
func conditions(n *corev1.Node)                 { n.Status.Conditions = nil }
func nodes(list ...*corev1.Node) []*corev1.Node { return list }

func TestShares(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []*corev1.Node
		want  Shares
	}{
		{"none", nil, nil},
		{"one zone", nodes(node("a", "x", "2"), node("b", "x", "2")), nil},
		{"two zones", nodes(node("a", "x", "1"), node("b", "y", "2"), node("c", "x", "1000m")), Shares{"x": 0.5, "y": 0.5}},
		{"three zones", nodes(node("a", "x", "1"), node("b", "y", "1"), node("c", "z", "6")), Shares{"x": 0.125, "y": 0.125, "z": 0.75}},
		{"a node without a zone", nodes(node("a", "x", "1"), node("b", "y", "1"), node("c", "", "1")), nil},
		{"a node without CPUs", nodes(node("a", "x", "1"), node("b", "y", "1"), node("c", "z", "")), nil},
		{"a zone that is not ready", nodes(node("a", "x", "1"), node("b", "y", "1", notReady)), nil},
		{"unready and ruling nodes do not count", nodes(node("a", "x", "1"), node("b", "y", "1"), node("c", "", "", notReady),
			node("d", "", "", ruler), node("e", "", "", oldRuler), node("f", "", "", conditions)), Shares{"x": 0.5, "y": 0.5}},
	} {
		if got := SharesOf(c.nodes); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// podsIn returns ready pods, so many on the node of each zone.
func podsIn(perZone ...int) []*corev1.Pod {
	var out []*corev1.Pod
	for zone, n := range perZone {
		for range n {
			out = append(out, pod(len(out)+1, onNode(fmt.Sprintf("node-%d", zone))))
		}
	}
	return out
}

func TestSpread(t *testing.T) {
	even := Shares{"zone-0": 0.5, "zone-1": 0.5}
	three := Shares{"zone-0": 1.0 / 3, "zone-1": 1.0 / 3, "zone-2": 1.0 / 3}
	for _, c := range []struct {
		name    string
		shares  Shares
		pods    []*corev1.Pod
		want    map[string]int
		problem string
	}{
		{"as the pods stand", even, podsIn(5, 5), map[string]int{"zone-0": 5, "zone-1": 5}, ""},
		{"a full zone gives", even, podsIn(8, 2), map[string]int{"zone-0": 5, "zone-1": 5}, ""},
		{"an empty zone receives", three, podsIn(6, 3, 0), map[string]int{"zone-0": 3, "zone-1": 3, "zone-2": 3}, ""},
		{"in proportion", Shares{"zone-0": 0.25, "zone-1": 0.75}, podsIn(4, 4), map[string]int{"zone-0": 2, "zone-1": 6}, ""},
		{"half an endpoint is not moved", even, podsIn(5, 4), map[string]int{"zone-0": 5, "zone-1": 4}, ""},
		{"pods in a zone without nodes keep it", even, podsIn(3, 3, 2), map[string]int{"zone-0": 3, "zone-1": 3, "zone-2": 2}, ""},
		{"unready pods do not count", even, append(podsIn(2, 2), pod(90, onNode("node-0"), unready)), map[string]int{"zone-0": 2, "zone-1": 2}, ""},
		{"no zones known", nil, podsIn(5, 5), nil, "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"},
		{"fewer endpoints than zones", three, podsIn(1, 1), nil, "Insufficient number of endpoints (2 endpoints, 3 zones)"},
		{"no way without overload", three, podsIn(2, 2), nil, "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold (4 endpoints, 3 zones)"},
		{"an endpoint without a zone", even, append(podsIn(3, 3), pod(90, onNode("bare"))), nil, "One or more endpoints do not have a zone specified"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 4)
			spread := func(hint func(*Plan)) func(p *Plan) {
				return func(p *Plan) { hint(p) }
			}
			var hinted map[string]int
			var problem string
			auto := spread(func(p *Plan) { hinted, problem = p.Spread(c.shares) })
			w.step(c.pods, auto)
			want := maps.Clone(c.want)
			if problem != c.problem || !maps.Equal(nonZero(hinted), want) {
				t.Fatalf("hinted %v, problem %q; want %v, %q", hinted, problem, c.want, c.problem)
			}
			if got := countHints(w.slices); !maps.Equal(got, nonZero(hinted)) {
				t.Errorf("hints written %v, counted %v", got, hinted)
			}
			if p := w.step(c.pods, auto); p.Changes() != 0 {
				t.Errorf("the same pods again change %d slices", p.Changes())
			}
			if w.step(c.pods); strings.Contains(hintsOf(w.slices), "zone") {
				t.Errorf("hints left after the Service asked for none: %s", hintsOf(w.slices))
			}
		})
	}
}

func nonZero(m map[string]int) map[string]int {
	out := map[string]int{}
	for k, n := range m {
		if n != 0 {
			out[k] = n
		}
	}
	return out
}

func countHints(list []*discoveryv1.EndpointSlice) map[string]int {
	out := map[string]int{}
	for _, s := range list {
		for _, e := range s.Endpoints {
			if e.Hints != nil {
				out[e.Hints.ForZones[0].Name]++
			}
		}
	}
	return out
}

func TestSpreadLeavesSlicesThatStillFit(t *testing.T) {
	even := Shares{"zone-0": 0.5, "zone-1": 0.5}
	auto := func(p *Plan) { p.Spread(even) }
	w := newWorld(t, 4)
	pods := podsIn(6, 6)
	w.step(pods, auto)
	p := w.step(append(pods, pod(90, onNode("node-1"))), auto)
	if len(p.Create) != 1 || len(p.Update) != 0 {
		t.Errorf("created %d, updated %d; want one new slice alone", len(p.Create), len(p.Update))
	}
	moved := Shares{"zone-0": 0.1, "zone-1": 0.9}
	if !moved.Overloaded(map[string]int{"zone-0": 6, "zone-1": 7}) || even.Overloaded(map[string]int{"zone-0": 6, "zone-1": 7}) {
		t.Errorf("overload is not told apart")
	}
	w.step(append(pods, pod(90, onNode("node-1"))), func(p *Plan) { p.Spread(moved) })
	if got := countHints(w.slices); moved.Overloaded(got) {
		t.Errorf("hints %v after the nodes moved leave a zone overloaded", got)
	}
}

func TestOverloaded(t *testing.T) {
	even := Shares{"a": 0.5, "b": 0.5}
	for _, c := range []struct {
		shares Shares
		hinted map[string]int
		want   bool
	}{
		{even, nil, false},
		{nil, map[string]int{"a": 1}, true},
		{even, map[string]int{"a": 5, "b": 5}, false},
		{even, map[string]int{"a": 5}, true},
		{even, map[string]int{"a": 6, "b": 5}, false},
		{even, map[string]int{"a": 8, "b": 3}, true},
	} {
		if got := c.shares.Overloaded(c.hinted); got != c.want {
			t.Errorf("%v in %v: overloaded %t, want %t", c.hinted, c.shares, got, c.want)
		}
	}
}
