package replicas

import (
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit"
)

var now = time.Unix(1_000_000, 0)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func pod(labels map[string]string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: labels}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for _, c := range changes {
		c(p)
	}
	return p
}

func readyFor(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(d),
		})
	}
}

var web = map[string]string{"app": "web", "tier": "front"}

func webSpec(replicas, minReady int32) Spec {
	return Spec{
		Replicas: replicas, MinReadySeconds: minReady,
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: web}},
	}
}

// reconcilerOfSets is a reconciler of ReplicaSets without a server, for its decisions.
func reconcilerOfSets(terminating bool) *reconciler[appsv1.ReplicaSet, *appsv1.ReplicaSet] {
	return &reconciler[appsv1.ReplicaSet, *appsv1.ReplicaSet]{kind: Kind[*appsv1.ReplicaSet]{
		Status: func(rs *appsv1.ReplicaSet) appsv1.ReplicaSetStatus { return rs.Status }, Terminating: terminating,
	}}
}

func TestStatusCountsPods(t *testing.T) {
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Generation: 7}}
	pods := observed{terminating: 2, active: []*corev1.Pod{
		pod(web),
		pod(web, readyFor(time.Minute)),
		pod(web, readyFor(time.Second)),
		pod(map[string]string{"app": "web", "tier": "front", "more": "x"}, readyFor(10*time.Second)),
		pod(map[string]string{"app": "web"}, readyFor(time.Minute)),
		pod(map[string]string{"app": "web", "tier": "back"}),
	}}
	got := reconcilerOfSets(true).statusOf(rs, webSpec(6, 10), pods, nil, now)
	want := appsv1.ReplicaSetStatus{
		Replicas: 6, FullyLabeledReplicas: 4, ReadyReplicas: 4, AvailableReplicas: 3, TerminatingReplicas: new(int32(2)), ObservedGeneration: 7,
	}
	if !sameStatus(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := reconcilerOfSets(false).statusOf(rs, webSpec(6, 0), pods, nil, now); got.TerminatingReplicas != nil || got.AvailableReplicas != 4 {
		t.Errorf("without terminating pods and a time to be ready: %+v", got)
	}
}

func TestReplicaFailure(t *testing.T) {
	quota := errors.New("exceeded quota")
	other := appsv1.ReplicaSetCondition{Type: "Other", Status: corev1.ConditionTrue, Reason: "Kept"}
	failed := appsv1.ReplicaSetCondition{
		Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: "first",
		LastTransitionTime: ago(time.Hour),
	}
	fresh := func(reason string) appsv1.ReplicaSetCondition {
		return appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: reason, Message: "exceeded quota",
			LastTransitionTime: metav1.NewTime(now),
		}
	}
	type conditions []appsv1.ReplicaSetCondition
	for _, c := range []struct {
		name string
		have int
		old  conditions
		err  error
		want conditions
	}{
		{"nothing fails", 3, conditions{other}, nil, conditions{other}},
		{"creation fails", 2, conditions{other}, quota, conditions{other, fresh("FailedCreate")}},
		{"deletion fails", 4, nil, quota, conditions{fresh("FailedDelete")}},
		{"it fails again", 4, conditions{failed, other}, quota, conditions{failed, other}},
		{"it works again", 3, conditions{failed, other}, nil, conditions{other}},
	} {
		rs := &appsv1.ReplicaSet{Status: appsv1.ReplicaSetStatus{Conditions: c.old}}
		before := rs.DeepCopy()
		pods := observed{active: make([]*corev1.Pod, c.have)}
		for i := range pods.active {
			pods.active[i] = pod(web)
		}
		got := reconcilerOfSets(true).statusOf(rs, webSpec(3, 0), pods, c.err, now)
		want := got
		want.Conditions = c.want
		if !sameStatus(got, want) {
			t.Errorf("%s: conditions %+v, want %+v", c.name, got.Conditions, c.want)
		}
		if !sameStatus(rs.Status, before.Status) {
			t.Errorf("%s: the cached object was changed", c.name)
		}
	}
}

func TestStatusIsTheSameUntilANumberChanges(t *testing.T) {
	full := func() appsv1.ReplicaSetStatus {
		return appsv1.ReplicaSetStatus{
			Replicas: 1, FullyLabeledReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, TerminatingReplicas: new(int32(0)), ObservedGeneration: 1,
			Conditions: []appsv1.ReplicaSetCondition{{Type: "A", Message: "m"}},
		}
	}
	if !sameStatus(full(), full()) {
		t.Error("equal statuses differ")
	}
	for name, change := range map[string]func(*appsv1.ReplicaSetStatus){
		"replicas":           func(s *appsv1.ReplicaSetStatus) { s.Replicas = 2 },
		"fully labeled":      func(s *appsv1.ReplicaSetStatus) { s.FullyLabeledReplicas = 2 },
		"ready":              func(s *appsv1.ReplicaSetStatus) { s.ReadyReplicas = 2 },
		"available":          func(s *appsv1.ReplicaSetStatus) { s.AvailableReplicas = 2 },
		"terminating":        func(s *appsv1.ReplicaSetStatus) { s.TerminatingReplicas = new(int32(1)) },
		"no terminating":     func(s *appsv1.ReplicaSetStatus) { s.TerminatingReplicas = nil },
		"observed":           func(s *appsv1.ReplicaSetStatus) { s.ObservedGeneration = 2 },
		"condition's text":   func(s *appsv1.ReplicaSetStatus) { s.Conditions[0].Message = "n" },
		"number of problems": func(s *appsv1.ReplicaSetStatus) { s.Conditions = nil },
	} {
		other := full()
		change(&other)
		if sameStatus(full(), other) || sameStatus(other, full()) {
			t.Errorf("a change of %s goes unnoticed", name)
		}
	}
}

func TestNextReconcile(t *testing.T) {
	pods := observed{active: []*corev1.Pod{pod(web, readyFor(3*time.Second)), pod(web, readyFor(time.Minute)), pod(web, readyFor(8*time.Second))}}
	undated := observed{active: []*corev1.Pod{pod(web, func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})}}
	for _, c := range []struct {
		name             string
		minReady         int32
		ready, available int32
		pods             observed
		want             kit.Result
	}{
		{"two wait", 10, 3, 1, pods, kit.After(2 * time.Second)},
		{"all available", 10, 3, 3, pods, kit.Done},
		{"no time asked for", 0, 3, 3, pods, kit.Done},
		{"ready since nobody knows when", 10, 1, 0, undated, kit.After(10 * time.Second)},
	} {
		if got := nextReconcile(webSpec(3, c.minReady), c.ready, c.available, c.pods, now); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
