package disruption

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestDesiredIsRoundedUpAsUpstreamDoes(t *testing.T) {
	for _, c := range []struct {
		least, most string
		expected    int32
		want        int32
	}{
		{"", "1", 3, 2},
		{"", "5", 3, 0},
		{"", "0", 3, 3},
		{"", "0%", 3, 3},
		{"", "50%", 3, 1}, // 2 of 3 may be unavailable
		{"", "34%", 3, 1},
		{"", "33%", 3, 2},
		{"", "100%", 3, 0},
		{"", "1%", 1, 0},
		{"", "30%", 0, 0},
		{"50%", "", 3, 2}, // 2 of 3 have to be available
		{"33%", "", 3, 1},
		{"67%", "", 3, 3},
		{"100%", "", 3, 3},
		{"0%", "", 3, 0},
		{"1%", "", 100, 1},
		{"10%", "", 11, 2},
	} {
		var least, most *intstr.IntOrString
		if c.least != "" {
			least = new(intstr.Parse(c.least))
		}
		if c.most != "" {
			most = new(intstr.Parse(c.most))
		}
		got, err := desired(least, most, c.expected)
		if err != nil || got != c.want {
			t.Errorf("at least %q, at most %q of %d: desired %d, %v; want %d", c.least, c.most, c.expected, got, err, c.want)
		}
	}
	for _, bad := range []intstr.IntOrString{intstr.FromString("x"), intstr.FromString("5")} {
		if _, err := desired(nil, &bad, 3); err == nil {
			t.Errorf("maxUnavailable %q is taken", bad.StrVal)
		}
		if _, err := desired(&bad, nil, 3); err == nil {
			t.Errorf("minAvailable %q is taken", bad.StrVal)
		}
	}
}

func TestWhatABudgetAllows(t *testing.T) {
	now := time.Unix(10000, 0)
	going := pod("going")
	going.DeletionTimestamp = new(metav1.NewTime(now))
	three := []*corev1.Pod{pod("a"), pod("b"), pod("c")}
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	for _, c := range []struct {
		name              string
		pods              []*corev1.Pod
		noted             map[string]metav1.Time
		expected, desired int32
		want              string
		survivors         int
		recheck           time.Duration
	}{
		{"one to spare", three, nil, 3, 2, "allows 1: healthy 3, desired 2, expected 3; True SufficientPods", 0, 0},
		{"none to spare", three, nil, 3, 3, "allows 0: healthy 3, desired 3, expected 3; False InsufficientPods", 0, 0},
		{"too few", []*corev1.Pod{pod("a"), unready(pod("b"))}, nil, 3, 2, "allows 0: healthy 1, desired 2, expected 3; False InsufficientPods", 0, 0},
		{"one being deleted", append(slices.Clone(three), going), nil, 3, 2, "allows 1: healthy 3, desired 2, expected 3; True SufficientPods", 0, 0},
		{"more than expected", three, nil, 1, 0, "allows 3: healthy 3, desired 0, expected 1; True SufficientPods", 0, 0},
		{"nothing expected", three, nil, 0, 0, "allows 0: healthy 3, desired 0, expected 0; False InsufficientPods", 0, 0},
		{"no pods", nil, nil, 0, 0, "allows 0: healthy 0, desired 0, expected 0; False InsufficientPods", 0, 0},
		{"one leaving", three, map[string]metav1.Time{"a": ago(time.Minute)}, 3, 1,
			"allows 1: healthy 2, desired 1, expected 3; True SufficientPods", 0, time.Minute},
		{"two leaving", three, map[string]metav1.Time{"a": ago(30 * time.Second), "b": ago(time.Minute)}, 3, 1,
			"allows 0: healthy 1, desired 1, expected 3; False InsufficientPods", 0, time.Minute},
		{"one that did not leave", three, map[string]metav1.Time{"a": ago(2*time.Minute + time.Second)}, 3, 2,
			"allows 1: healthy 3, desired 2, expected 3; True SufficientPods", 1, 0},
		{"one that is gone", three, map[string]metav1.Time{"x": ago(time.Second)}, 3, 2,
			"allows 1: healthy 3, desired 2, expected 3; True SufficientPods", 0, 0},
		{"one that is going", []*corev1.Pod{pod("a"), going}, map[string]metav1.Time{"going": ago(time.Second)}, 2, 1,
			"allows 0: healthy 1, desired 1, expected 2; False InsufficientPods", 0, 0},
		{"at the very end of its time", three, map[string]metav1.Time{"a": ago(2 * time.Minute)}, 3, 2,
			"allows 0: healthy 2, desired 2, expected 3; False InsufficientPods", 0, time.Millisecond},
	} {
		b := budget("b")
		b.Generation, b.Status.DisruptedPods = 4, c.noted
		p := makePlan(b, c.pods, expectation{known: true, expected: c.expected, desired: c.desired}, now)
		after := *b
		after.Status = p.status
		if got := state(&after); got != c.want || !p.changed {
			t.Errorf("%s: %s, changed %t\nwant %s", c.name, got, p.changed, c.want)
		}
		if len(p.survivors) != c.survivors || p.recheck != c.recheck || p.status.ObservedGeneration != 4 {
			t.Errorf("%s: %d survivors, look again in %s, generation %d; want %d, %s, 4", c.name, len(p.survivors), p.recheck, p.status.ObservedGeneration, c.survivors, c.recheck)
		}
		for _, pod := range c.pods {
			if _, kept := p.status.DisruptedPods[pod.Name]; kept != (c.recheck > 0 && !c.noted[pod.Name].Time.IsZero()) {
				t.Errorf("%s: pod %s noted as leaving: %t", c.name, pod.Name, kept)
			}
		}
		// Computing the same status again is no change, and neither is nil instead of empty disruptedPods.
		after.Status.Conditions[0].LastTransitionTime = ago(time.Hour)
		if again := makePlan(&after, c.pods, expectation{known: true, expected: c.expected, desired: c.desired}, now); again.changed && c.recheck == 0 {
			t.Errorf("%s: a second look finds a change: %+v", c.name, again.status)
		}
	}
}

func TestAStatusIsNotSharedWithTheBudgetItWasMadeFrom(t *testing.T) {
	b := budget("b")
	b.Status.Conditions = []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionTrue, Reason: policyv1.SufficientPodsReason}}
	p := makePlan(b, nil, expectation{known: true}, time.Now())
	if !p.changed || b.Status.Conditions[0].Status != metav1.ConditionTrue || p.status.Conditions[0].Status != metav1.ConditionFalse {
		t.Errorf("before %v, after %v", b.Status.Conditions, p.status.Conditions)
	}
	failed, _ := failedStatus(b, errors.New("x"), time.Now())
	if b.Status.Conditions[0].Status != metav1.ConditionTrue || failed.Conditions[0].Reason != policyv1.SyncFailedReason {
		t.Errorf("before %v, failed %v", b.Status.Conditions, failed.Conditions)
	}
}

func TestConditionsOfOthersStay(t *testing.T) {
	now := time.Now()
	other := metav1.Condition{Type: "example.com/Reviewed", Status: metav1.ConditionTrue, Reason: "Yes", LastTransitionTime: metav1.NewTime(now)}
	b := &policyv1.PodDisruptionBudget{Status: policyv1.PodDisruptionBudgetStatus{Conditions: []metav1.Condition{other}}}
	planned := makePlan(b, nil, expectation{known: true, expected: 1}, now).status.Conditions
	failed, _ := failedStatus(b, errors.New("no"), now)
	for when, got := range map[string][]metav1.Condition{"planned": planned, "failed": failed.Conditions} {
		if len(got) != 2 || got[0] != other || got[1].Type != policyv1.DisruptionAllowedCondition {
			t.Errorf("%s: %v", when, got)
		}
	}
}

func TestAFailureIsWrittenOnce(t *testing.T) {
	b := budget("b")
	b.Generation = 3
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2, DisruptionsAllowed: 1, CurrentHealthy: 3, DesiredHealthy: 2, ExpectedPods: 3}
	status, changed := failedStatus(b, errors.New("no scale"), time.Now())
	if b.Status = status; !changed || state(b) != "allows 0: healthy 3, desired 2, expected 3; False SyncFailed" || status.ObservedGeneration != 2 {
		t.Errorf("changed %t to %s, generation %d", changed, state(b), status.ObservedGeneration)
	}
	if _, changed := failedStatus(b, errors.New("no scale"), time.Now()); changed {
		t.Error("the same failure is a change")
	}
	if status, changed := failedStatus(b, errors.New("gone"), time.Now()); !changed || status.Conditions[0].Message != "gone" {
		t.Errorf("another failure: changed %t, %v", changed, status.Conditions)
	}
	b.Status.DisruptionsAllowed = 1
	if _, changed := failedStatus(b, errors.New("no scale"), time.Now()); !changed {
		t.Error("disruptions are still allowed")
	}
}
