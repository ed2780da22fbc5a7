package daemonset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// noon is the time of the views in tables.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// parseView reads nodes, one after another, separated by semicolons: "a old+ new-; b keep old~; c".
//
// The first word is the name of a node; then may come keep (a pod may stay and is not to run), none (no pod may stay) or
// gone (there is no such node). The other words are pods, in the order of their age, the oldest first: old or new, and
// what they are:
//
//   - available   ~  ready for less than a minute   -  running, not ready   ?  waiting for the scheduler
//     F  failed      S  succeeded                      x before the word: being deleted
//
// Pods are named after their node and place: a0, a1.
func parseView(text string, opts ...setOption) *view {
	v := &view{set: newSet("ds", append([]setOption{minReady(60)}, opts...)...), now: noon, current: templateID{hash: "new", generation: "7"}}
	for _, line := range strings.Split(text, ";") {
		words := strings.Fields(line)
		s := nodeState{node: words[0], verdict: verdict{true, true}}
		for _, w := range words[1:] {
			switch w {
			case "keep":
				s.verdict = verdict{false, true}
			case "none":
				s.verdict = verdict{}
			case "gone":
				s.verdict, s.gone = verdict{}, true
			default:
				s.pods = append(s.pods, parsePod(w, s.node, len(s.pods)))
			}
		}
		if s.run {
			v.desired++
		}
		v.nodes = append(v.nodes, s)
	}
	return v
}

func parsePod(word, node string, place int) *corev1.Pod {
	rest, deleted := strings.CutPrefix(word, "x")
	state := rest[len(rest)-1]
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprint(node, place), CreationTimestamp: metav1.NewTime(noon.Add(time.Duration(place-60) * time.Minute)),
		Labels: map[string]string{hashLabel: rest[:len(rest)-1]},
	}}
	if deleted {
		p.DeletionTimestamp = new(metav1.NewTime(noon))
	}
	p.Spec = pinned(&corev1.Pod{}, node).Spec
	switch state {
	case '?':
		p.Status.Phase = corev1.PodPending
		return p
	case '+':
		run(p, noon.Add(-time.Minute))
	case '~':
		run(p, noon.Add(-time.Minute+time.Second))
	case 'F':
		ended(corev1.PodFailed)(p)
	case 'S':
		ended(corev1.PodSucceeded)(p)
	default:
		run(p, noon)
		unready(p)
	}
	return p
}

// text formats a plan: "+a" to create a pod on node a, "-b0" to delete pod b0.
func (p plan) text() string {
	var out []string
	for _, node := range p.create {
		out = append(out, "+"+node)
	}
	for _, r := range p.remove {
		out = append(out, "-"+r.pod.Name+strings.ToUpper(string(r.ended)))
	}
	return strings.Join(out, " ")
}

func TestManageBringsNodesToTheirPods(t *testing.T) {
	surging := rolling("0", "1")
	for _, c := range []struct {
		name  string
		nodes string
		opts  []setOption
		want  string
	}{
		{"a pod each", "a; b; c new+; d keep; e none", nil, "+a +b"},
		{"in the order of names", "c; a; b", nil, "+a +b +c"},
		{"no second pod while one is deleted", "a xold+", nil, ""},
		{"a new one beside one that has ended and is deleted", "a", nil, "+a"},
		{"pods stay where they may", "a keep old+; b keep new-", nil, ""},
		{"pods go where they may not stay", "a none old+; b none new? new+; c none xnew+", nil, "-a0 -b0 -b1"},
		{"a failed pod", "a newF", nil, "-a0FAILED"},
		{"a failed pod where none is to run", "a keep newF; b none newF", nil, "-a0FAILED -b0"},
		{"a succeeded pod", "a oldS", nil, "-a0SUCCEEDED"},
		{"failed pods that are deleted", "a xnewF", nil, ""},
		{"all but the oldest", "a new+ new+ old+", nil, "-a1 -a2"},
		{"all but the oldest that is bound", "a new? new+ new+", nil, "-a2 -a0"},
		{"deleted and ended ones do not count", "a xold+ newF new+", nil, "-a1FAILED"},
		{"pods of nodes that are gone, if nobody else sees to them", "a gone new+ new? xnew?", nil, "-a1"},

		{"surging: a new pod as soon as the old one is deleted", "a xold+", []setOption{surging}, "+a"},
		{"surging: but not where none is to run", "a keep xold+", []setOption{surging}, ""},
		{"surging: a failed pod", "a newF", []setOption{surging}, "+a -a0FAILED"},
		{"surging: an old and a new one", "a old+ new-", []setOption{surging}, ""},
		{"surging: the new one is ready for too short a time", "a old+ new~", []setOption{surging}, ""},
		{"surging: the new one is available", "a old+ new+", []setOption{surging}, "-a0"},
		{"surging: the old one is not ready", "a old- new-", []setOption{surging}, "-a0"},
		{"surging: the old one is ready for a short time", "a old~ new-", []setOption{surging}, ""},
		{"surging: one of each", "a old+ old+ new- new-", []setOption{surging}, "-a1 -a3"},
		{"surging: several old ones", "a old+ old+", []setOption{surging}, "-a1"},
		{"a surge of none", "a old+ new-", []setOption{rolling("1", "0%")}, "-a1"},
		{"a surge that does not roll", "a old+ new-", []setOption{surging, func(s *appsv1.DaemonSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType }}, "-a1"},
	} {
		p := manage(parseView(c.nodes, c.opts...), func(string) time.Duration { return 0 })
		if got := p.text(); got != c.want || p.after != 0 {
			t.Errorf("%s: %s: plan %q (again in %v), want %q", c.name, c.nodes, got, p.after, c.want)
		}
	}
}

func TestFailedPodsWaitForTheirTime(t *testing.T) {
	blocked := func(node string) time.Duration {
		return map[string]time.Duration{"a": 4 * time.Second, "b": 2 * time.Second}[node]
	}
	p := manage(parseView("a newF; b newF; c newF; d newS; e"), blocked)
	if got := p.text(); got != "+e -c0FAILED -d0SUCCEEDED" || p.after != 2*time.Second {
		t.Errorf("plan %q, again in %v", got, p.after)
	}
	// A failed pod that must stay for now delays its replacement, even if two pods may run: otherwise they would pile up.
	if got := manage(parseView("a newF; c newF", rolling("0", "1")), blocked).text(); got != "+c -c0FAILED" {
		t.Errorf("surging: plan %q", got)
	}
}

func TestPodsAreSortedByNode(t *testing.T) {
	set := newSet("ds")
	pod := func(name, node string, change func(*corev1.Pod)) *corev1.Pod {
		p := pinned(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}, node)
		if change != nil {
			change(p)
		}
		return p
	}
	all := []*corev1.Pod{
		pod("waiting", "a", nil),
		pod("bound", "b", func(p *corev1.Pod) { p.Spec.NodeName = "a" }),
		pod("forgotten", "a", func(p *corev1.Pod) {
			ended(corev1.PodFailed)(p)
			p.DeletionTimestamp = new(metav1.NewTime(noon))
		}),
		pod("stopping", "b", func(p *corev1.Pod) {
			run(p, noon)
			p.DeletionTimestamp = new(metav1.NewTime(noon))
		}),
		pod("nowhere", "", func(p *corev1.Pod) { p.Spec.Affinity = nil }),
		pod("anywhere", "", func(p *corev1.Pod) { p.Spec.Affinity = requires(named(corev1.NodeSelectorOpIn, "a", "b")) }),
		pod("lost", "z", nil),
		pod("kept", "k", nil),
	}
	nodes := []*corev1.Node{
		newNode("a"), newNode("b"), newNode("c"),
		newNode("k", taint("x", corev1.TaintEffectNoSchedule)), newNode("l", taint("x", corev1.TaintEffectNoSchedule)),
	}
	v := newView(set, newPlacement(&set.Spec.Template.Spec, false), nodes, all, templateID{}, noon)
	if v.desired != 3 {
		t.Errorf("%d nodes are to run a pod, want 3", v.desired)
	}
	var got []string
	for _, s := range v.nodes {
		line := fmt.Sprintf("%s %v %v %v:", s.node, s.run, s.stay, s.gone)
		for _, p := range s.pods {
			line += " " + p.Name
		}
		got = append(got, line)
	}
	slices.Sort(got)
	want := []string{"a true true false: waiting bound", "b true true false: stopping", "c true true false:", "k false true false: kept", "z false false true: lost"}
	if !slices.Equal(got, want) {
		t.Errorf("nodes\n%q, want\n%q", got, want)
	}
}
