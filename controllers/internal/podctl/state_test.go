package podctl

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Unix(1_000_000, 0)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func readyFor(d time.Duration) *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(d)},
	}}}
}

func TestAvailability(t *testing.T) {
	unready := readyFor(time.Hour)
	unready.Status.Conditions[1].Status = corev1.ConditionFalse
	undated := readyFor(0)
	undated.Status.Conditions[1].LastTransitionTime = metav1.Time{}
	for _, c := range []struct {
		name      string
		pod       *corev1.Pod
		min       int32
		available bool
		wait      time.Duration // 0: does not wait
	}{
		{"no condition", &corev1.Pod{}, 0, false, 0},
		{"not ready", unready, 0, false, 0},
		{"ready, no time asked for", readyFor(0), 0, true, 0},
		{"ready too short", readyFor(4 * time.Second), 10, false, 6 * time.Second},
		{"ready just long enough", readyFor(10 * time.Second), 10, true, 0},
		{"ready long", readyFor(time.Hour), 10, true, 0},
		{"ready, undated, no time asked for", undated, 0, true, 0},
		{"ready, undated", undated, 10, false, 0},
	} {
		if got := Available(c.pod, c.min, now); got != c.available {
			t.Errorf("%s: available %v, want %v", c.name, got, c.available)
		}
		if wait, ok := AvailableIn(c.pod, c.min, now); wait != c.wait || ok != (c.wait > 0) {
			t.Errorf("%s: waits %s (%v), want %s", c.name, wait, ok, c.wait)
		}
	}
}

func TestNextAvailableIsTheEarliestThatStillWaits(t *testing.T) {
	pods := []*corev1.Pod{readyFor(time.Hour), readyFor(2 * time.Second), {}, readyFor(7 * time.Second)}
	if d, ok := NextAvailable(pods, 10, now); !ok || d != 3*time.Second {
		t.Errorf("next in %s (%v), want 3s", d, ok)
	}
	if d, ok := NextAvailable(pods[:1], 10, now); ok {
		t.Errorf("all available, yet the next is in %s", d)
	}
	if d, ok := NextAvailable(pods, 0, now); ok {
		t.Errorf("no time asked for, yet the next is in %s", d)
	}
}

func TestLifeOfAPod(t *testing.T) {
	gone := ago(time.Second)
	for _, c := range []struct {
		phase                         corev1.PodPhase
		deleted                       *metav1.Time
		active, terminating, finished bool
	}{
		{corev1.PodPending, nil, true, false, false},
		{corev1.PodRunning, nil, true, false, false},
		{corev1.PodRunning, &gone, false, true, false},
		{corev1.PodPending, &gone, false, true, false},
		{corev1.PodSucceeded, nil, false, false, true},
		{corev1.PodFailed, nil, false, false, true},
		{corev1.PodFailed, &gone, false, false, true},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: c.deleted}, Status: corev1.PodStatus{Phase: c.phase}}
		if Active(p) != c.active || Terminating(p) != c.terminating || Finished(p) != c.finished {
			t.Errorf("%s deleted=%v: active %v terminating %v finished %v, want %v %v %v", c.phase, c.deleted != nil,
				Active(p), Terminating(p), Finished(p), c.active, c.terminating, c.finished)
		}
	}
}
