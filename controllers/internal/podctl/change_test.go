package podctl

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhichChangesOfAPodMatter(t *testing.T) {
	restarted := func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: 4}}
	}
	owned := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "u", Controller: new(true)}}
	}
	base := func() *corev1.Pod {
		p := readyFor(time.Minute)
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "w", Controller: new(true)}}
		return p
	}
	if !Matters(nil, base()) || !Matters(base(), nil) {
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
		"no longer ready":   {func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }, true},
		"ready later":       {func(p *corev1.Pod) { p.Status.Conditions[1].LastTransitionTime = ago(time.Second) }, true},
		"being deleted":     {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }, true},
		"labelled":          {func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }, true},
		"owned":             {owned, true},
		"released":          {func(p *corev1.Pod) { p.OwnerReferences = nil }, true},
		"owned by a Job":    {func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Job" }, true},
		"owned by a name":   {func(p *corev1.Pod) { p.OwnerReferences[0].Name = "other" }, true},
		"another pod":       {func(p *corev1.Pod) { p.UID = "other" }, true},
		"given a finalizer": {func(p *corev1.Pod) { p.Finalizers = []string{"f"} }, false},
	} {
		changed := base()
		c.change(changed)
		if got := Matters(base(), changed); got != c.want {
			t.Errorf("%s: matters %v, want %v", name, got, c.want)
		}
	}
}
