package disruption

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

var (
	podKind    = corev1.SchemeGroupVersion.WithKind("Pod")
	budgetKind = policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")
)

const statusOfB = "update policy/v1/poddisruptionbudgets/status default/b"

// TestAnOwnerWithoutScaleSaysWhy is PDB-01.
func TestAnOwnerWithoutScaleSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		api.AddKind(widgets, "widgets", true)
		api.WithoutScale(widgets)
		populate(t, api, widget("w", 3), 3)
		b := budget("b", atMost("1"))
		api.Create(t, b)
		api.Run(t, Descriptor())
		api.Settle()
		expectState(t, api, "b", "allows 0: healthy 0, desired 0, expected 0; False SyncFailed")
		if got := messages(api, "CalculateExpectedPodCountFailed"); len(got) == 0 || !strings.Contains(got[0], "widgets.example.com") {
			t.Errorf("events %q, want one that names the kind", got)
		}
		b = budget("b", atLeast("2"))
		api.Update(t, b)
		api.Settle()
		expectState(t, api, "b", "allows 1: healthy 3, desired 2, expected 3; True SufficientPods")
	})
}

// TestBarePodsMakeNoErrorsAndNoRepeatedWrites is PDB-02.
func TestBarePodsMakeNoErrorsAndNoRepeatedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, pod("a"), pod("b"), budget("b", atMost("1")))
		api.Run(t, Descriptor())
		api.Pass(time.Hour)
		api.Expect(t, statusOfB)
		expectState(t, api, "b", "allows 0: healthy 2, desired 0, expected 0; False InsufficientPods")
		want := `Warning PodDisruptionBudget default/b: Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.`
		if got := messages(api, "UnmanagedPods"); !slices.Equal(got, []string{want}) {
			t.Errorf("events %q", got)
		}
		b := budget("b", atLeast("1"))
		api.Update(t, b)
		api.Settle()
		expectState(t, api, "b", "allows 1: healthy 2, desired 1, expected 2; True SufficientPods")
	})
}

// TestUnmanagedPodsAreToldThoughTheyChangeNoNumber creates the pod after its budget, and the pod never becomes ready.
func TestUnmanagedPodsAreToldThoughTheyChangeNoNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, budget("b", atMost("1")))
		running := api.Run(t, Descriptor())
		api.Settle()
		if got := reasons(api, "PodDisruptionBudget default/b"); !slices.Equal(got, []string{"NoPods"}) {
			t.Errorf("events %q before there is a pod", got)
		}
		api.Create(t, unready(pod("a")))
		api.Settle()
		if got := reasons(api, "PodDisruptionBudget default/b"); !slices.Equal(got, []string{"NoPods", "UnmanagedPods"}) {
			t.Errorf("events %q with a pod that nobody manages", got)
		}
		api.Create(t, unready(pod("b")))
		api.Delete(t, pod("b"))
		api.Pass(time.Hour)
		if got := messages(api, "UnmanagedPods"); len(got) != 1 {
			t.Errorf("told %d times", len(got))
		}
		api.Delete(t, pod("a"))
		api.Settle()
		if got := messages(api, "NoPods"); len(got) != 2 {
			t.Errorf("told %d times that there are no pods, want once more", len(got))
		}
		running.Stop()
		api.Run(t, Descriptor())
		api.Settle()
		if got := messages(api, "NoPods"); len(got) != 2 {
			t.Errorf("told %d times that there are no pods: a restart is no news", len(got))
		}
		api.Expect(t, statusOfB)
	})
}

// TestASelectorThatCannotBeReadAllowsNothing has selectors from before the server validated their values.
func TestASelectorThatCannotBeReadAllowsNothing(t *testing.T) {
	for name, selector := range map[string]*metav1.LabelSelector{
		"label":      {MatchLabels: labels{"app": "web-"}},
		"expression": {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web-"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := kittest.New(t, budget("b", atMost("1"), selecting(selector)))
				api.Run(t, Descriptor())
				api.Pass(time.Hour)
				b := expectState(t, api, "b", "allows 0: healthy 0, desired 0, expected 0; False SyncFailed")
				const want = `values[0][app]: Invalid value: "web-"`
				if got := b.Status.Conditions[0].Message; !strings.HasPrefix(got, want) {
					t.Errorf("message %q, want %q and why", got, want)
				}
				if got := messages(api, "NoPods"); len(got) != 1 || !strings.HasPrefix(got[0], "Warning PodDisruptionBudget default/b: Failed to get pods: "+want) {
					t.Errorf("events %q", got)
				}
				api.Expect(t, statusOfB)
			})
		})
	}
}

// TestAPodThatIsNotReadyLowersTheBudgetWithinASecond is PDB-04.
func TestAPodThatIsNotReadyLowersTheBudgetWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		pods := populate(t, api, replicaSet("rs", 3), 3)
		b := budget("b", atLeast("2"))
		api.Create(t, b)
		running := api.Run(t, Descriptor())
		api.Settle()
		expectState(t, api, "b", "allows 1: healthy 3, desired 2, expected 3; True SufficientPods")
		running.Stop()
		api.Update(t, unready(pods[0]))
		api.Settle()
		expectState(t, api, "b", "allows 1: healthy 3, desired 2, expected 3; True SufficientPods")
		api.Run(t, Descriptor())
		api.Pass(time.Second)
		expectState(t, api, "b", "allows 0: healthy 2, desired 2, expected 3; False InsufficientPods")
		api.Get(t, b)
		b.Spec.MinAvailable = nil
		atMost("50%")(b)
		b.Generation++
		api.Update(t, b)
		api.Pass(time.Second)
		if b = expectState(t, api, "b", "allows 1: healthy 2, desired 1, expected 3; True SufficientPods"); b.Status.ObservedGeneration != b.Generation {
			t.Errorf("observed generation %d of %d", b.Status.ObservedGeneration, b.Generation)
		}
	})
}

// TestConditionReasons is PDB-05.
func TestConditionReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		pods := populate(t, api, replicaSet("rs", 3), 3)
		api.Create(t, budget("b", atLeast("2")))
		api.Run(t, Descriptor())
		api.Settle()
		before := expectState(t, api, "b", "allows 1: healthy 3, desired 2, expected 3; True SufficientPods").Status.Conditions[0].LastTransitionTime
		api.Pass(time.Minute)
		api.Update(t, unready(pods[0]))
		api.Settle()
		b := expectState(t, api, "b", "allows 0: healthy 2, desired 2, expected 3; False InsufficientPods")
		if !b.Status.Conditions[0].LastTransitionTime.After(before.Time) {
			t.Error("the transition has the time of the one before")
		}
		api.Update(t, unready(pods[1]))
		api.Settle()
		expectState(t, api, "b", "allows 0: healthy 1, desired 2, expected 3; False InsufficientPods")
		api.Expect(t, statusOfB, statusOfB, statusOfB)
	})
}

func TestChangesOfPodsThatMeanNothingToABudgetAreNotLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		pods := populate(t, api, replicaSet("rs", 3), 3)
		api.Create(t, budget("b", atLeast("2")))
		api.Run(t, Descriptor())
		api.Settle()
		api.Expect(t, statusOfB)
		pods[0].Annotations = labels{"x": "y"}
		pods[0].Status.PodIP = "10.0.0.1"
		api.Update(t, pods[0])
		api.Settle()
		api.Expect(t)
		pods[0].Labels = app("other") // leaves the budget
		api.Update(t, pods[0])
		api.Settle()
		expectState(t, api, "b", "allows 0: healthy 2, desired 2, expected 2; False InsufficientPods")
		pods[0].Labels = app("web") // and comes back
		api.Update(t, pods[0])
		api.Settle()
		expectState(t, api, "b", "allows 1: healthy 3, desired 2, expected 3; True SufficientPods")
		api.Remove(t, pods[0])
		api.Settle()
		expectState(t, api, "b", "allows 0: healthy 2, desired 2, expected 2; False InsufficientPods")
	})
}

func TestSelectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		populate(t, api, replicaSet("rs", 3), 3)
		bare := pod("bare")
		bare.Labels = nil
		api.Create(t, bare)
		far := pod("far")
		far.Namespace = "elsewhere"
		api.Create(t, far)
		in := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web", "x"}}}}
		bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}
		for name, s := range map[string]*metav1.LabelSelector{"all": {}, "none": nil, "in": in, "bad": bad} {
			api.Create(t, budget(name, atLeast("1"), selecting(s)))
		}
		api.Run(t, Descriptor())
		api.Settle()
		expectState(t, api, "all", "allows 3: healthy 4, desired 1, expected 4; True SufficientPods")
		expectState(t, api, "none", "allows 0: healthy 0, desired 1, expected 0; False InsufficientPods")
		expectState(t, api, "in", "allows 2: healthy 3, desired 1, expected 3; True SufficientPods")
		expectState(t, api, "bad", "allows 0: healthy 0, desired 0, expected 0; False SyncFailed")
		got := messages(api, "NoPods")
		slices.Sort(got)
		if len(got) != 2 || got[0] != "Normal PodDisruptionBudget default/none: No matching pods found" ||
			!strings.HasPrefix(got[1], "Warning PodDisruptionBudget default/bad: Failed to get pods: ") {
			t.Errorf("events %q", got)
		}
		api.Create(t, pod("late"))
		api.Settle()
		expectState(t, api, "all", "allows 4: healthy 5, desired 1, expected 5; True SufficientPods")
		expectState(t, api, "in", "allows 3: healthy 4, desired 1, expected 4; True SufficientPods")
		api.Update(t, budget("all", atLeast("1"), selecting(in)))
		api.Update(t, budget("in", atLeast("1"), selecting(nil)))
		api.Settle()
		expectState(t, api, "all", "allows 3: healthy 4, desired 1, expected 4; True SufficientPods")
		expectState(t, api, "in", "allows 0: healthy 0, desired 1, expected 0; False InsufficientPods")
	})
}

func TestAPodWithTwoBudgetsIsToldAndBothFollowIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		pods := populate(t, api, replicaSet("rs", 3), 3)
		api.Create(t, budget("b", atMost("1")))
		api.Create(t, budget("a", atLeast("1")))
		api.Run(t, Descriptor())
		api.Settle()
		api.Update(t, unready(pods[1]))
		api.Settle()
		expectState(t, api, "a", "allows 1: healthy 2, desired 1, expected 3; True SufficientPods")
		expectState(t, api, "b", "allows 0: healthy 2, desired 2, expected 3; False InsufficientPods")
		want := `Warning Pod default/rs-1: Pod "default"/"rs-1" matches multiple PodDisruptionBudgets.  Chose "a" arbitrarily.`
		if got := messages(api, "MultiplePodDisruptionBudgets"); !slices.Equal(got, []string{want}) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}

func TestABudgetFollowsTheScaleOfItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		d := deployment("d", 3)
		api.Create(t, d)
		populate(t, api, replicaSet("rs", 3, d), 3)
		api.Create(t, budget("b", atMost("1")))
		api.Run(t, Descriptor())
		api.Settle()
		expectState(t, api, "b", "allows 1: healthy 3, desired 2, expected 3; True SufficientPods")
		*d.Spec.Replicas = 5 // and a quota holds the pods back
		api.Update(t, d)
		api.Settle()
		expectState(t, api, "b", "allows 0: healthy 3, desired 4, expected 5; False InsufficientPods")
		*d.Spec.Replicas = 2
		api.Update(t, d)
		api.Pass(settleTime - 100*time.Millisecond)
		// The owner is about to delete pods: until then no disruption is allowed.
		expectState(t, api, "b", "allows 0: healthy 3, desired 4, expected 5; False InsufficientPods")
		api.Pass(time.Second)
		expectState(t, api, "b", "allows 2: healthy 3, desired 1, expected 2; True SufficientPods")
		api.Expect(t, statusOfB, statusOfB, statusOfB)
	})
}

func TestEveryKindOfOwnerIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		set, rc, rs := statefulSet("ss", 1), replicationController("rc", 1), replicaSet("rs", 1)
		populate(t, api, set, 1)
		populate(t, api, rc, 1)
		populate(t, api, rs, 1)
		api.Create(t, budget("b", atMost("50%")))
		api.Run(t, Descriptor())
		api.Settle()
		expectState(t, api, "b", "allows 2: healthy 3, desired 1, expected 3; True SufficientPods")
		*set.Spec.Replicas = 2
		api.Update(t, set)
		api.Settle()
		expectState(t, api, "b", "allows 1: healthy 3, desired 2, expected 4; True SufficientPods")
		*rc.Spec.Replicas = 3
		api.Update(t, rc)
		api.Settle()
		expectState(t, api, "b", "allows 0: healthy 3, desired 3, expected 6; False InsufficientPods")
		*rs.Spec.Replicas = 3
		api.Update(t, rs)
		api.Settle()
		expectState(t, api, "b", "allows 0: healthy 3, desired 4, expected 8; False InsufficientPods")
	})
}

func TestFlagsAreValidated(t *testing.T) {
	if errs := (&options{workers: 0}).validate(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "--concurrent-disruption-syncs") {
		t.Errorf("errors = %v, want one that names the flag", errs)
	}
	if errs := (&options{workers: 1}).validate(); len(errs) != 0 {
		t.Errorf("the default is refused: %v", errs)
	}
}
