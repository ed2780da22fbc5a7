package disruption

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/internal/podctl"
	"orrery/kit/kittest"
)

// note changes a budget as the eviction API does before it deletes a pod.
func note(t *testing.T, api *kittest.API, name, pod string) {
	t.Helper()
	b := &policyv1.PodDisruptionBudget{ObjectMeta: named(name)}
	api.Get(t, b)
	b.Status.DisruptionsAllowed--
	if b.Status.DisruptedPods == nil {
		b.Status.DisruptedPods = map[string]metav1.Time{}
	}
	b.Status.DisruptedPods[pod] = metav1.Now()
	api.Update(t, b)
}

func TestAnEvictedPodCountsAsGoneBeforeItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		pods := populate(t, api, replicaSet("rs", 3), 3)
		api.Create(t, budget("b", atLeast("2")))
		api.Run(t, Descriptor())
		api.Settle()
		api.FreezeWatch(podKind, true)
		note(t, api, "b", "rs-0")
		api.Delete(t, pods[0])
		api.Pass(time.Minute)
		b := expectState(t, api, "b", "allows 0: healthy 2, desired 2, expected 3; False InsufficientPods")
		if _, ok := b.Status.DisruptedPods["rs-0"]; !ok {
			t.Errorf("noted %v, want rs-0", b.Status.DisruptedPods)
		}
		api.FreezeWatch(podKind, false)
		api.Settle()
		if b = expectState(t, api, "b", "allows 0: healthy 2, desired 2, expected 2; False InsufficientPods"); len(b.Status.DisruptedPods) != 0 {
			t.Errorf("noted %v though the end of the pod is seen", b.Status.DisruptedPods)
		}
		api.Expect(t, statusOfB, statusOfB, statusOfB)
	})
}

func TestAPodThatIsNotDeletedInTimeCountsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		populate(t, api, replicaSet("rs", 3), 3)
		api.Create(t, budget("b", atLeast("2")))
		api.Run(t, Descriptor())
		api.Settle()
		note(t, api, "b", "rs-1")
		api.Pass(2*time.Minute - time.Second)
		expectState(t, api, "b", "allows 0: healthy 2, desired 2, expected 3; False InsufficientPods")
		api.Pass(3 * time.Second)
		if b := expectState(t, api, "b", "allows 1: healthy 3, desired 2, expected 3; True SufficientPods"); len(b.Status.DisruptedPods) != 0 {
			t.Errorf("noted %v", b.Status.DisruptedPods)
		}
		want := "Warning Pod default/rs-1: Pod was expected by PDB default/b to be deleted but it wasn't"
		if got := messages(api, "NotDeleted"); !slices.Equal(got, []string{want}) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}

// TestABudgetIsNotRaisedOverAnEvictionThatTheCacheDoesNotShow delays the watch of budgets, but not that of pods.
func TestABudgetIsNotRaisedOverAnEvictionThatTheCacheDoesNotShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		pods := populate(t, api, replicaSet("rs", 4), 4)
		api.Update(t, unready(pods[3]))
		api.Create(t, budget("b", atLeast("2")))
		api.Run(t, Descriptor())
		api.Settle()
		expectState(t, api, "b", "allows 1: healthy 3, desired 2, expected 4; True SufficientPods")
		api.FreezeWatch(budgetKind, true)
		note(t, api, "b", "rs-0")
		pods[3].Status.Conditions[0].Status = corev1.ConditionTrue
		api.Update(t, pods[3]) // 4 are healthy, 3 of them not noted: 1 is right, 2 would be wrong
		api.Pass(time.Second)
		expectState(t, api, "b", "allows 0: healthy 3, desired 2, expected 4; True SufficientPods")
		api.FreezeWatch(budgetKind, false)
		api.Pass(2 * time.Second)
		expectState(t, api, "b", "allows 1: healthy 3, desired 2, expected 4; True SufficientPods")
	})
}

// TestAnOldScaleLowersABudgetAndDoesNotRaiseIt has an owner that was scaled up and whose scale can no longer be read.
func TestAnOldScaleLowersABudgetAndDoesNotRaiseIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		api.AddKind(widgets, "widgets", true)
		w := widget("w", 4)
		pods := populate(t, api, w, 4)
		api.Create(t, budget("b", atMost("2")))
		api.Run(t, Descriptor())
		api.Settle()
		expectState(t, api, "b", "allows 2: healthy 4, desired 2, expected 4; True SufficientPods")
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Subresource == "scale" {
				time.Sleep(3 * time.Second)
			}
			return nil
		})
		api.Pass(time.Minute)
		w = widget("w", 6)
		api.Update(t, w)
		api.Update(t, unready(pods[0]))
		api.Pass(100 * time.Millisecond) // lower at once by what is known
		expectState(t, api, "b", "allows 1: healthy 3, desired 2, expected 4; True SufficientPods")
		pods[0].Status.Conditions[0].Status = corev1.ConditionTrue
		api.Update(t, pods[0])
		api.Pass(100 * time.Millisecond) // and not higher: 2 would be wrong
		expectState(t, api, "b", "allows 1: healthy 3, desired 2, expected 4; True SufficientPods")
		api.Pass(10 * time.Second)
		expectState(t, api, "b", "allows 0: healthy 4, desired 4, expected 6; False InsufficientPods")
	})
}

func TestAConflictIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		populate(t, api, replicaSet("rs", 3), 3)
		api.Create(t, budget("b", atLeast("2")))
		left := 3 // read and written by the one worker
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "update" && left > 0 {
				left--
				return kittest.Refuse(409, "someone else wrote")
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Pass(10 * time.Second)
		api.Expect(t, statusOfB)
		if got := api.Events(); len(got) != 0 {
			t.Errorf("events %v", got)
		}
	})
}

// marking returns a ready pod that has been marked as about to be disrupted since a given time.
func marking(name, reason string, since time.Time) *corev1.Pod {
	p := pod(name)
	p.Generation = 2
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: "Eviction API: evicting", LastTransitionTime: metav1.NewTime(since)})
	return p
}

func TestAStaleDisruptionConditionIsCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		old, ended, kubelets, going := marking("old", "EvictionByEvictionAPI", now.Add(-time.Hour)), marking("ended", "EvictionByEvictionAPI", now), marking("kubelets", corev1.PodReasonTerminationByKubelet, now), marking("going", "EvictionByEvictionAPI", now)
		ended.Status.Phase = corev1.PodFailed
		going.Finalizers = []string{"example.com/hold"}
		fresh := marking("fresh", "EvictionByEvictionAPI", now)
		api := kittest.New(t, old, ended, kubelets, going, fresh)
		api.Delete(t, going)
		api.Run(t, Descriptor())
		api.Settle()
		api.Expect(t, "patch v1/pods/status default/old")
		api.Get(t, old)
		c := podctl.Condition(old, corev1.DisruptionTarget)
		if c.Status != corev1.ConditionFalse || c.Reason != "" || c.Message != "" || c.ObservedGeneration != 2 || time.Since(c.LastTransitionTime.Time) > time.Second*2 {
			t.Errorf("condition is %+v", c)
		}
		if !podctl.Ready(old) {
			t.Error("another condition is gone")
		}
		api.Pass(2*time.Minute - 2*time.Second)
		api.Expect(t)
		api.Pass(3 * time.Second)
		api.Expect(t, "patch v1/pods/status default/fresh")
		api.Pass(time.Hour)
		api.Expect(t)
	})
}

// TestAConditionThatTheKubeletTakesOverIsItsOwn has the kubelet set the condition while the cache still shows the stale one.
func TestAConditionThatTheKubeletTakesOverIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := marking("p", "EvictionByEvictionAPI", time.Now())
		api := kittest.New(t, p)
		api.Run(t, Descriptor())
		api.Pass(time.Minute)
		api.FreezeWatch(podKind, true)
		p.Status.Conditions[1].Reason = corev1.PodReasonTerminationByKubelet
		api.Update(t, p)
		api.Pass(2 * time.Minute)
		api.FreezeWatch(podKind, false)
		api.Pass(time.Hour)
		api.Expect(t)
	})
}
