package daemonset

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestOldPodsAreReplacedWithinTheBound(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit string
		nodes string
		want  string
	}{
		{"nothing to do", "1", "a new+; b new-; c", ""},
		{"one at a time", "1", "b old+; a old+; c old+", "-a0"},
		{"several at a time", "2", "b old+; a old+; c old+", "-a0 -b0"},
		{"while a node has no pod", "2", "a; b old+; c old+", "-b0"},
		{"while a pod is deleted", "1", "a xold+; b old+", ""},
		{"while a new one is not ready", "1", "a new-; b old+", ""},
		{"while a new one is ready for too short a time", "1", "a new~; b old+", ""},
		{"unavailable ones beyond the bound", "1", "a old-; b old~; c old?; d old+", "-a0 -b0 -c0"},
		{"unavailable ones first, and they count", "3", "a old+; b old+; c old-; d old-", "-c0 -d0 -a0"},
		{"unavailable ones while the bound is used up", "1", "a new-; b old-; c old+", "-b0"},
		{"a node of too many pods counts", "2", "a old+ old+; b old+; c old+", "-b0"},
		{"a node of an old and a new pod counts", "1", "a old+ new-; b old+", ""},
		{"where no pod is to run", "1", "a keep old+; b new+", "-a0"},
		{"a pod of a node that is gone", "1", "a gone old-; b old+", "-a0"},
		{"percent, rounded up", "30%", "a old+; b old+; c old+; d old+", "-a0 -b0"},
		{"all at once", "100%", "a old+; b old+; c old+", "-a0 -b0 -c0"},
		{"no bound at all", "0", "a old+; b old+", "-a0"},
	} {
		p, err := roll(parseView(c.nodes, rolling(c.limit, "")))
		if got := p.text(); err != nil || got != c.want {
			t.Errorf("%s: %s: plan %q (%v), want %q", c.name, c.nodes, got, err, c.want)
		}
	}
}

func TestNewPodsComeBesideOldOnesWithinTheSurge(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit string
		nodes string
		want  string
	}{
		{"nothing to do", "1", "a new+; b new-; c", ""},
		{"one at a time", "1", "b old+; a old+; c old+", "+a"},
		{"several at a time", "2", "b old+; a old+; c old+", "+a +b"},
		{"while a new one is not available", "1", "a old+ new~; b old+", ""},
		{"an old one goes when the new one is available", "1", "a old+ new+; b old+", "+b -a0"},
		{"unavailable ones beyond the surge", "1", "a old-; b old-; c old+; d old~", "+a +b +d +c"},
		{"unavailable ones do not use the surge up", "1", "a old+ new-; b old-", "+b"},
		{"a node of too many pods counts", "1", "a old+ old+; b old+", ""},
		{"deleted pods do not", "1", "a xold+ new-; b old+", "+b"},
		{"percent, rounded up", "30%", "a old+; b old+; c old+; d old+", "+a +b"},
		{"an unavailable pod where none is to run", "1", "a keep old-; b new+", "-a0"},
		{"an available one, before another serves", "1", "a keep old+; b new-", ""},
		{"an available one, when another serves", "1", "a keep old+; b new+", "-a0"},
		{"as many as others serve", "1", "a keep old+; b keep old+; c new+; d new+; e", "-a0"},
		{"nodes that are gone do not count", "1", "a gone old+; b keep old+; c new-", ""},
	} {
		p, err := roll(parseView(c.nodes, rolling("0", c.limit)))
		if got := p.text(); err != nil || got != c.want {
			t.Errorf("%s: %s: plan %q (%v), want %q", c.name, c.nodes, got, err, c.want)
		}
	}
}

func TestBoundsOfAnUpdate(t *testing.T) {
	for _, c := range []struct {
		unavailable, surge string
		desired            int
		want               bounds
	}{
		{"1", "", 5, bounds{1, 0}},
		{"10%", "0", 25, bounds{3, 0}},
		{"0", "10%", 25, bounds{0, 3}},
		{"0", "0", 5, bounds{1, 0}},
		{"0%", "", 5, bounds{1, 0}},
		{"0", "", 0, bounds{0, 0}},
		{"0", "1%", 0, bounds{0, 0}},
	} {
		got, err := boundsOf(newSet("ds", rolling(c.unavailable, c.surge)), c.desired)
		if err != nil || got != c.want {
			t.Errorf("%q and %q of %d: %+v (%v), want %+v", c.unavailable, c.surge, c.desired, got, err, c.want)
		}
	}
	bare := newSet("ds", func(s *appsv1.DaemonSet) { s.Spec.UpdateStrategy.RollingUpdate = nil })
	if got, err := boundsOf(bare, 3); err != nil || got != (bounds{1, 0}) {
		t.Errorf("without bounds: %+v (%v)", got, err)
	}
	for _, bad := range []string{"MaxUnavailable", "MaxSurge"} {
		set := newSet("ds", rolling("1", "0"))
		r := set.Spec.UpdateStrategy.RollingUpdate
		*map[string]**intstr.IntOrString{"MaxUnavailable": &r.MaxUnavailable, "MaxSurge": &r.MaxSurge}[bad] = new(intstr.FromString("few"))
		if _, err := boundsOf(set, 3); err == nil || !strings.Contains(err.Error(), "invalid value for "+bad) {
			t.Errorf("a bad %s: %v", bad, err)
		}
	}
}

func TestAPodIsCurrentByHashOrByGeneration(t *testing.T) {
	e := templateID{hash: "h", equivalent: []string{"g"}, generation: "3"}
	for _, c := range []struct {
		hash, generation string
		want             bool
	}{
		{"h", "1", true}, {"g", "1", true}, {"x", "3", true}, {"x", "2", false}, {"", "", false}, {"", "3", true},
	} {
		pod := parsePod("new+", "a", 0)
		pod.Labels = map[string]string{hashLabel: c.hash, generationLabel: c.generation}
		if got := e.matches(pod); got != c.want {
			t.Errorf("hash %q, generation %q: %v", c.hash, c.generation, got)
		}
	}
	if (templateID{}).matches(parsePod("new+", "a", 0)) {
		t.Error("a pod is of no template")
	}
	for annotation, want := range map[string]string{"7": "7", "": "", "x": "", "007": "7"} {
		set := newSet("ds")
		set.Annotations[appsv1.DeprecatedTemplateGeneration] = annotation
		if got := generationOf(set); got != want {
			t.Errorf("generation %q of %q, want %q", got, annotation, want)
		}
	}
}
