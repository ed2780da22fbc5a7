package job

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orrery/kit/kittest"
)

// A Job may be deleted and made anew under its name at any moment, as installers do with their hooks.

// anew takes a Job away and makes another of the same name.
func anew(t *testing.T, api *kittest.API, opts ...jobOption) {
	t.Helper()
	api.Remove(t, get(t, api, "j"))
	api.Create(t, newJob("j", opts...))
}

// TestAJobThatIsMadeAnewUnseenFreesThePodsOfTheOld loses the watch of Jobs while one gives way to another: what comes of
// the next list is one change, and no word of a deletion.
func TestAJobThatIsMadeAnewUnseenFreesThePodsOfTheOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j"))
		old := allPods(t, api)[0]
		changePod(t, api, old, runs)
		settled(api)
		api.FreezeWatch(jobKind, true)
		anew(t, api, of(1, 2))
		api.Delete(t, old) // by the garbage collector
		settled(api)
		api.Compact(jobKind)
		api.FreezeWatch(jobKind, false)
		api.Pass(time.Minute)
		if api.Get(t, old); tracked(old) {
			t.Error("the pod of the old Job keeps the finalizer, and stays for ever")
		}
		expect(t, api, "j", "active 1 ready 0 terminating 0 succeeded 0 failed 0")
	})
}

// kubernetes/kubernetes#131917, #142142
func TestAJobThatIsMadeAnewDuringALookGetsItsPods(t *testing.T) {
	for name, during := range map[string]func(*kittest.Request) bool{
		"while a pod is made":        func(r *kittest.Request) bool { return r.Verb == "create" && r.Resource.Resource == "pods" },
		"while the status is stored": func(r *kittest.Request) bool { return r.Subresource == "status" },
		"while a pod is freed":       func(r *kittest.Request) bool { return r.Verb == "patch" && r.Resource.Resource == "pods" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := strict(t, newJob("j", of(1, 2)))
				made := false
				api.React(func(r *kittest.Request) *kittest.Reaction {
					if !made && r.User == Name && during(r) {
						made = true
						anew(t, api, of(2, 2))
					}
					return nil
				})
				api.Run(t, Descriptor())
				settled(api)
				if !made {
					finishAll(t, api, 0)
					settled(api)
				}
				uid := get(t, api, "j").UID
				for range 5 {
					for _, p := range allPods(t, api) {
						if p.OwnerReferences[0].UID != uid {
							api.Delete(t, p) // by the garbage collector
						}
					}
					finishAll(t, api, 0)
					settled(api)
				}
				if !made {
					t.Fatal("the Job was not made anew")
				}
				expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 2 failed 0"+isComplete)
				for _, p := range trackedPods(t, api) {
					t.Errorf("pod %s keeps the finalizer", p.Name)
				}
			})
		})
	}
}

// kubernetes/kubernetes#125410: a taint manager of its time made a failed pod of one that had succeeded.
func TestAPodListedAsSucceededStaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", limit(0)))
		pod := allPods(t, api)[0]
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.User == Name && r.Verb == "patch" {
				return kittest.Refuse(500, "not now")
			}
			return nil
		})
		changePod(t, api, pod, exits(0))
		settled(api)
		if u := get(t, api, "j").Status.UncountedTerminatedPods; u == nil || len(u.Succeeded) != 1 {
			t.Fatalf("uncounted %+v, want the pod as succeeded", u)
		}
		changePod(t, api, pod, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		settled(api)
		api.Unreact()
		api.React(refuseBadStatus(t, api))
		api.Pass(time.Minute)
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 1 failed 0"+isComplete)
	})
}

// kubernetes/kubernetes#139428
func TestPodsThatRunAreReportedDuringTheBackOff(t *testing.T) {
	for name, opts := range map[string][]jobOption{"of the Job": {of(2, 2)}, "of an index": {of(2, 2), withIndexes, limitEach(3)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := start(t, newJob("j", opts...))
				two := activePods(t, api)
				changePod(t, api, two[0], runs)
				changePod(t, api, two[1], exits(1))
				settled(api)
				s := get(t, api, "j").Status
				if s.Active != 1 || deref(s.Ready) != 1 || len(activePods(t, api)) != 1 {
					t.Errorf("%s, want the pod that runs", summary(get(t, api, "j")))
				}
				api.Pass(10 * time.Second)
				if n := len(activePods(t, api)); n != 2 {
					t.Errorf("%d pods are active after the back-off", n)
				}
			})
		})
	}
}

// TestAPodThatCannotBeFreedHoldsNoOtherUp is about a policy that refuses changes of some pods.
func TestAPodThatCannotBeFreedHoldsNoOtherUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(3, 6)))
		held := allPods(t, api)[0]
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.User == Name && r.Verb == "patch" && r.Name == held.Name {
				return kittest.Refuse(422, "refused by a policy")
			}
			return nil
		})
		for range 4 {
			finishAll(t, api, 0)
			api.Pass(time.Minute)
		}
		if got := trackedPods(t, api); len(got) != 1 || got[0].Name != held.Name {
			t.Errorf("%d pods keep the finalizer, want the one that is refused", len(got))
		}
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 5 failed 0 uncounted 1 SuccessCriteriaMet=True:CompletionsReached")
		api.Unreact()
		api.Pass(20 * time.Minute)
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 6 failed 0"+isComplete)
	})
}

// kubernetes/kubernetes#141346: the server is busy as the Job goes, and no change of the pod comes after.
func TestAPodOfADeletedJobIsFreedOnceThatWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(2, 2)))
		two := allPods(t, api)
		for _, p := range two {
			api.Delete(t, p)
		}
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.User == Name && r.Verb == "patch" {
				return kittest.Refuse(504, "Timeout: request did not complete within requested timeout")
			}
			return nil
		})
		api.Remove(t, get(t, api, "j"))
		api.Pass(10 * time.Minute)
		if n := len(trackedPods(t, api)); n != 2 {
			t.Fatalf("%d pods have the finalizer", n)
		}
		api.Unreact()
		api.Pass(61 * time.Second)
		if n := len(trackedPods(t, api)); n != 0 {
			t.Errorf("%d pods keep the finalizer", n)
		}
	})
}
