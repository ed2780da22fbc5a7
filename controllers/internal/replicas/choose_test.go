package replicas

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestSiftKeepsActivePodsAndCountsTheMatchingOnesThatGo(t *testing.T) {
	gone := &metav1.Time{Time: now}
	failed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	going := func(p *corev1.Pod) { p.DeletionTimestamp = gone }
	a, b := pod(web), pod(map[string]string{"app": "other"})
	active, terminating := sift([]*corev1.Pod{
		pod(web, going), a, pod(web, failed), b, pod(web, failed, going), pod(map[string]string{"app": "other"}, going), pod(web, going),
	}, labels.SelectorFromSet(web))
	if !slices.Equal(active, []*corev1.Pod{a, b}) || terminating != 2 {
		t.Errorf("%d active and %d terminating, want the 2 and 2", len(active), terminating)
	}
}

func TestAgeRatios(t *testing.T) {
	aged := func(d time.Duration) func(*corev1.Pod) { return func(p *corev1.Pod) { p.CreationTimestamp = ago(d) } }
	pods := []*corev1.Pod{
		pod(web, aged(time.Second)), // not ready: neither the youngest nor told of
		pod(web, aged(100*time.Second), readyFor(0)),
		pod(web, aged(40*time.Second), readyFor(0)),
		pod(web, aged(70*time.Second), readyFor(0)),
	}
	var told []float64
	ageRatios(pods, 3, now, func(f float64) { told = append(told, f) })
	if !slices.Equal(told, []float64{2, 1}) {
		t.Errorf("told %v, want 2 and 1", told)
	}
	told = nil
	ageRatios([]*corev1.Pod{pod(web, aged(0), readyFor(0))}, 1, now, func(f float64) { told = append(told, f) })
	if told != nil {
		t.Errorf("told %v of a pod with no age", told)
	}
}

func TestCountByNodeSkipsPodsThatDoNotRun(t *testing.T) {
	on := func(n string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = n } }
	got := countByNode([][]*corev1.Pod{
		{pod(web, on("a")), pod(web, on("b"))},
		{pod(web, on("a")), pod(web, on("a"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })},
	})
	if got["a"] != 2 || got["b"] != 1 {
		t.Errorf("got %v, want 2 on a and 1 on b", got)
	}
}
