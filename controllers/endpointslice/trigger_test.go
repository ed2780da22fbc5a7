package endpointslice

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit"
)

func TestTriggerTimes(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	svc := service("web", func(s *corev1.Service) { s.CreationTimestamp = metav1.NewTime(at(10)) })
	timed := func(name string, minutes int) *corev1.Pod {
		p := pod("web", name, "10.1.0.1")
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(at(minutes))
		return p
	}
	ended := func(name string, minutes int) *corev1.Pod {
		p := timed(name, minutes)
		p.Status.Phase = corev1.PodSucceeded
		return p
	}
	list := func(pods ...*corev1.Pod) []*corev1.Pod { return pods }
	undated := pod("web", "u", "10.1.0.9", func(p *corev1.Pod) { p.Status.Conditions = nil })

	tr := newTriggers()
	for _, step := range []struct {
		name string
		pods []*corev1.Pod
		want time.Time
	}{
		{"a Service that is not known", list(timed("a", 20)), at(10)},
		{"no change", list(timed("a", 20)), time.Time{}},
		{"one change", list(timed("a", 30)), at(30)},
		{"the earliest of several", list(timed("a", 50), timed("b", 40), undated), at(40)},
		{"a pod that goes", list(timed("b", 40)), time.Time{}},
		{"a pod that comes back as it was", list(timed("a", 50), timed("b", 40)), at(50)},
		{"time that goes back", list(timed("a", 45), timed("b", 40)), time.Time{}},
		{"and on from there", list(timed("a", 48), timed("b", 40)), at(48)},
		{"a pod that ended before it was listed", list(timed("a", 48), timed("b", 40), ended("c", 50)), time.Time{}},
		{"a pod that is listed", list(timed("a", 48), timed("b", 40), timed("d", 52), ended("c", 51)), at(52)},
		{"that pod's end", list(timed("a", 48), timed("b", 40), ended("d", 54)), at(54)},
		{"what comes after its end", list(timed("a", 48), timed("b", 40), ended("d", 56)), time.Time{}},
	} {
		if got := tr.observe(svc, step.pods); !got.Equal(step.want) {
			t.Errorf("%s: %v, want %v", step.name, got, step.want)
		}
	}
	again := service("web", func(s *corev1.Service) { s.CreationTimestamp = metav1.NewTime(at(60)) })
	if got := tr.observe(again, list(timed("a", 48), timed("b", 40))); !got.Equal(at(60)) {
		t.Errorf("a Service made again: %v, want its creation", got)
	}
	tr.forget(kit.KeyOf(svc))
	if len(tr.services) != 0 {
		t.Errorf("a forgotten Service is kept")
	}
}

func TestServicesThatSelectNothing(t *testing.T) {
	type labels = map[string]string
	for _, c := range []struct {
		selector labels
		kind     corev1.ServiceType
		want     bool
	}{{labels{"a": "b"}, "", true}, {nil, "", false}, {labels{}, "", false}, {labels{"a": "b"}, corev1.ServiceTypeExternalName, false}} {
		s := &corev1.Service{Spec: corev1.ServiceSpec{Selector: c.selector, Type: c.kind}}
		if selects(s) != c.want {
			t.Errorf("%v %s: selects %t, want %t", c.selector, c.kind, selects(s), c.want)
		}
	}
}
