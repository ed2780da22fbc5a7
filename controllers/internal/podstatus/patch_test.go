package podstatus

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

func TestPatch(t *testing.T) {
	before, now := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	condition := func(kind corev1.PodConditionType, s corev1.ConditionStatus, reason string, at metav1.Time) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: s, Reason: reason, LastTransitionTime: at}
	}
	target := func(reason string, at metav1.Time) corev1.PodCondition {
		return condition(corev1.DisruptionTarget, corev1.ConditionTrue, reason, at)
	}
	ready := condition(corev1.PodReady, corev1.ConditionTrue, "", before)
	for _, tc := range []struct {
		name   string
		has    corev1.PodStatus
		change Change
		want   *corev1.PodStatus // nil: no patch is needed
	}{
		{"a condition is added after the others", corev1.PodStatus{Conditions: []corev1.PodCondition{ready}},
			Change{Conditions: []corev1.PodCondition{target("r", metav1.Time{})}},
			&corev1.PodStatus{Conditions: []corev1.PodCondition{ready, target("r", now)}}},
		{"a changed condition stays where it is", corev1.PodStatus{Conditions: []corev1.PodCondition{target("q", before), ready}},
			Change{Conditions: []corev1.PodCondition{condition("New", corev1.ConditionTrue, "", metav1.Time{}), target("r", metav1.Time{})}},
			&corev1.PodStatus{Conditions: []corev1.PodCondition{target("r", before), ready, condition("New", corev1.ConditionTrue, "", now)}}},
		{"an equal condition needs nothing", corev1.PodStatus{Conditions: []corev1.PodCondition{target("r", before)}},
			Change{Conditions: []corev1.PodCondition{target("r", metav1.Time{})}}, nil},
		{"another reason is no transition", corev1.PodStatus{Conditions: []corev1.PodCondition{target("q", before)}},
			Change{Conditions: []corev1.PodCondition{target("r", metav1.Time{})}},
			&corev1.PodStatus{Conditions: []corev1.PodCondition{target("r", before)}}},
		{"a reason and a message go", corev1.PodStatus{Conditions: []corev1.PodCondition{ready,
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "r", Message: "m", LastTransitionTime: before}}},
			Change{Conditions: []corev1.PodCondition{condition(corev1.DisruptionTarget, corev1.ConditionFalse, "", metav1.Time{})}},
			&corev1.PodStatus{Conditions: []corev1.PodCondition{ready, condition(corev1.DisruptionTarget, corev1.ConditionFalse, "", now)}}},
		{"a message goes and the reason stays", corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "r", Message: "m", LastTransitionTime: before}}},
			Change{Conditions: []corev1.PodCondition{target("r", metav1.Time{})}},
			&corev1.PodStatus{Conditions: []corev1.PodCondition{target("r", before)}}},
		{"a phase says what it was made from", corev1.PodStatus{Phase: corev1.PodRunning, ObservedGeneration: 2},
			Change{Phase: corev1.PodFailed}, &corev1.PodStatus{Phase: corev1.PodFailed, ObservedGeneration: 3}},
		{"the same phase needs nothing", corev1.PodStatus{Phase: corev1.PodFailed, ObservedGeneration: 2}, Change{Phase: corev1.PodFailed}, nil},
		{"nothing needs nothing", corev1.PodStatus{}, Change{}, nil},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: 3}, Status: tc.has}
		p, needed, err := Patch(pod, tc.change, now.Time)
		if err != nil || needed != (tc.want != nil) {
			t.Errorf("%s: needed = %t, %v", tc.name, needed, err)
			continue
		}
		if !needed {
			continue
		}
		old, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		merged, err := strategicpatch.StrategicMergePatch(old, p.Data, corev1.Pod{})
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		want, got := &corev1.Pod{ObjectMeta: pod.ObjectMeta, Status: *tc.want}, &corev1.Pod{}
		if err := json.Unmarshal(merged, got); err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(got)
		if string(a) != string(b) {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, b, a)
		}
	}
}

func TestAPatchLeavesConditionsThatTheCacheDoesNotShow(t *testing.T) {
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	other := corev1.PodCondition{Type: "Other", Status: corev1.ConditionTrue}
	pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{ready}}}
	p, _, err := Patch(pod, Change{Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Conditions = []corev1.PodCondition{other, ready}
	old, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := strategicpatch.StrategicMergePatch(old, p.Data, corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	got := &corev1.Pod{}
	if err := json.Unmarshal(merged, got); err != nil {
		t.Fatal(err)
	}
	if c := got.Status.Conditions; len(c) != 3 || c[0].Type != "Other" || c[1].Type != corev1.PodReady || c[2].Type != corev1.DisruptionTarget {
		t.Errorf("conditions %v; want Other, Ready, DisruptionTarget", c)
	}
}

func TestAPatchMayBeBoundToTheVersionRead(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "7"}}
	for _, bound := range []bool{false, true} {
		p, _, err := Patch(pod, Change{Phase: corev1.PodFailed, OnlyThisVersion: bound}, time.Now())
		var got metav1.PartialObjectMetadata
		if err := json.Unmarshal(p.Data, &got); err != nil {
			t.Fatal(err)
		}
		want := ""
		if bound {
			want = "7"
		}
		if err != nil || got.UID != "u" || got.ResourceVersion != want {
			t.Errorf("bound %t: UID %q, version %q, %v; want version %q", bound, got.UID, got.ResourceVersion, err, want)
		}
	}
}
