package replicas

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

func TestWhichChangesOfAPodMatter(t *testing.T) {
	base := func() *corev1.Pod { return pod(web, readyFor(time.Minute)) }
	if !matters(nil, base()) || !matters(base(), nil) {
		t.Error("a pod that comes or goes does not matter")
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"nothing":           {func(*corev1.Pod) {}, false},
		"scheduled":         {func(p *corev1.Pod) { p.Spec.NodeName = "n" }, false},
		"other condition":   {func(p *corev1.Pod) { p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "X"}) }, false},
		"restarted":         {restarted, false},
		"annotated":         {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, false},
		"running":           {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, false},
		"failed":            {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		"no longer ready":   {func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, true},
		"ready later":       {func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = ago(time.Second) }, true},
		"being deleted":     {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }, true},
		"labelled":          {func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }, true},
		"owned":             {func(p *corev1.Pod) { own(p, "u") }, true},
		"another pod":       {func(p *corev1.Pod) { p.UID = "other" }, true},
		"given a finalizer": {func(p *corev1.Pod) { p.Finalizers = []string{"f"} }, false},
	} {
		changed := base()
		c.change(changed)
		if got := matters(base(), changed); got != c.want {
			t.Errorf("%s: matters %v, want %v", name, got, c.want)
		}
	}
}

func restarted(p *corev1.Pod) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: 4}}
}

func own(p *corev1.Pod, uid types.UID) {
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", UID: uid, Controller: &yes}}
}

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
