package job

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/kit/kittest"
)

// Cases that have gone wrong in the field, by their number in the Kubernetes issue tracker.

// again ends the controller and starts one that knows nothing.
func again(t *testing.T, api *kittest.API, r *kittest.Running) *kittest.Running {
	t.Helper()
	r.Stop()
	api.ForgetCache()
	return api.Run(t, Descriptor())
}

// kubernetes/kubernetes#105200
func TestAPodThatTheCacheShowsLateIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(1, 5)))
		api.DelayWatch(podKind, 2*time.Second)
		finishAll(t, api, 0)
		for range 10 { // whatever wakes it up meanwhile
			edit(t, api, "j", func(j *batchv1.Job) { j.Spec.BackoffLimit = new(*j.Spec.BackoffLimit + 1) })
			api.Pass(700 * time.Millisecond)
			if n := get(t, api, "j").Status.Succeeded; n > 1 {
				t.Fatalf("%d are counted", n)
			}
		}
		expect(t, api, "j", "active 1 ready 0 terminating 0 succeeded 1 failed 0")
	})
}

// kubernetes/kubernetes#111646
func TestAPodListedAsFailedStaysFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(2, 2), limit(0)))
		two := activePods(t, api)
		for _, p := range two {
			changePod(t, api, p, runs)
		}
		settled(api)
		// The finalizers cannot be removed while both are listed, and then the second pod succeeds.
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "patch" {
				return kittest.Refuse(http.StatusInternalServerError, "not now")
			}
			return nil
		})
		changePod(t, api, two[0], exits(1))
		api.Pass(time.Second)
		if u := get(t, api, "j").Status.UncountedTerminatedPods; u == nil || len(u.Failed) != 2 {
			t.Fatalf("uncounted %+v, want both as failed", u)
		}
		changePod(t, api, two[1], exits(0))
		api.Unreact()
		api.React(refuseBadStatus(t, api))
		refused := false
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Subresource == "status" && !refused && len(trackedPods(t, api)) == 0 {
				refused = true
				return kittest.Refuse(http.StatusConflict, "try again")
			}
			return nil
		})
		api.Pass(3 * time.Minute)
		if !refused {
			t.Error("the final status was not refused")
		}
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 0 failed 2"+fmt.Sprintf(isFailed, "BackoffLimitExceeded"))
	})
}

// kubernetes/kubernetes#104666
func TestManyPodsThatEndTogetherAreCountedInBursts(t *testing.T) {
	for name, opts := range map[string][]jobOption{"plain": {of(1200, 1200)}, "indexed": {of(1200, 1200), withIndexes}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := start(t, newJob("j", opts...))
				settled(api)
				if n := len(allPods(t, api)); n != 1200 {
					t.Fatalf("%d pods", n)
				}
				most := 0
				api.React(func(r *kittest.Request) *kittest.Reaction {
					if r.Subresource == "status" {
						most = max(most, int(get(t, api, "j").Status.Succeeded))
					}
					return nil
				})
				finishAll(t, api, 0)
				api.Settle()
				settled(api)
				want := "active 0 ready 0 terminating 0 succeeded 1200 failed 0"
				if name == "indexed" {
					want += " completed [0-1199]"
				}
				expect(t, api, "j", want+isComplete)
				if n := len(trackedPods(t, api)); n != 0 {
					t.Errorf("%d pods keep the finalizer", n)
				}
				if n := count(api.Writes(), statusWrites); n > 12 {
					t.Errorf("the status was written %d times", n)
				}
			})
		})
	}
}

// kubernetes/kubernetes#130103
func TestAStatusThatTheCacheShowsLateCausesNoSecondRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", limit(0)))
		api.DelayWatch(jobKind, 5*time.Second)
		changePod(t, api, allPods(t, api)[0], runs)
		api.Pass(time.Second)
		changePod(t, api, allPods(t, api)[0], exits(0))
		api.Pass(time.Second)
		api.Delete(t, allPods(t, api)[0]) // by a user, before the cache shows that the Job is complete
		api.Pass(20 * time.Second)
		if n := count(api.Writes(), "create v1/pods"); n != 1 {
			t.Errorf("%d pods were made", n)
		}
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 1 failed 0"+isComplete)
	})
}

// kubernetes/kubernetes#130333
func TestAFinishedJobGetsNoMorePods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(2, 2)))
		finishAll(t, api, 0)
		api.FreezeWatch(jobKind, true)
		settled(api)
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 2 failed 0"+isComplete)
		api.Remove(t, allPods(t, api)[0])
		api.Pass(time.Minute)
		api.FreezeWatch(jobKind, false)
		settled(api)
		if n := count(api.Writes(), "create v1/pods"); n != 2 {
			t.Errorf("%d pods were made", n)
		}
	})
}

// kubernetes/kubernetes#114650
func TestTheBackOffSurvivesARestart(t *testing.T) {
	for name, c := range map[string]struct {
		lose int // failed pods that somebody deletes before the restart
		wait time.Duration
	}{"all pods are left": {0, 80 * time.Second}, "some are gone": {2, 80 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := strict(t, newJob("j", limit(100)))
				r := api.Run(t, Descriptor())
				api.Settle()
				for n, delay := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
					finishAll(t, api, 1)
					api.Pass(delay - 2*time.Second)
					if got := len(allPods(t, api)); got != n+1 {
						t.Fatalf("%d pods before %v are over, want %d", got, delay, n+1)
					}
					api.Pass(4 * time.Second)
				}
				finishAll(t, api, 1) // the fourth failure
				api.Pass(5 * time.Second)
				for range c.lose {
					api.Remove(t, allPods(t, api)[0])
				}
				r = again(t, api, r)
				api.Pass(c.wait - 8*time.Second)
				if n := len(activePods(t, api)); n != 0 {
					t.Error("the next pod came too soon")
				}
				again(t, api, r)
				api.Pass(6 * time.Second)
				if n := len(activePods(t, api)); n != 1 {
					t.Errorf("%d pods are active after the back-off", n)
				}
				expect(t, api, "j", "active 1 ready 0 terminating 0 succeeded 0 failed 4")
			})
		})
	}
}

// kubernetes/kubernetes#88718
func TestAFullQuotaIsTriedWithFewAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := strict(t, newJob("j", of(10, 10)))
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" && len(allPods(t, api)) >= 3 {
				return kittest.Refuse(http.StatusForbidden, "exceeded quota")
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Pass(time.Minute)
		expect(t, api, "j", "active 3 ready 0 terminating 0 succeeded 0 failed 0")
		if n := len(slices.DeleteFunc(api.Events(), func(e kittest.Event) bool { return e.Reason != "FailedCreate" })); n < 3 || n > 25 {
			t.Errorf("%d failures in a minute", n)
		}
		if n := count(api.Writes(), statusWrites); n > 3 {
			t.Errorf("%d writes of the status", n)
		}
		api.Unreact()
		api.Pass(2 * time.Minute)
		expect(t, api, "j", "active 10 ready 0 terminating 0 succeeded 0 failed 0")
	})
}

// kubernetes/kubernetes#134769
func TestAQuickSuspensionIsTakenByTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, pause := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond, time.Second, 3 * time.Second} {
			job := newJob("j")
			api := start(t, job) // which fails the test on a status that a server refuses
			api.Pass(time.Second)
			edit(t, api, "j", suspend)
			api.Pass(pause)
			resumed := time.Now()
			edit(t, api, "j", func(j *batchv1.Job) { j.Spec.Suspend = new(false) })
			api.Pass(5 * time.Second)
			j := get(t, api, "j")
			if j.Status.Active != 1 || j.Status.StartTime == nil {
				t.Errorf("after %v: %s, started %v", pause, summary(j), j.Status.StartTime)
			}
			if isFalse := conditionOf(&j.Status, batchv1.JobSuspended); isFalse != nil && j.Status.StartTime.Add(time.Second).Before(resumed) {
				t.Errorf("after %v: started %v, resumed %v", pause, j.Status.StartTime, resumed)
			}
		}
	})
}

// A Job that an older version suspended keeps its start time until it is resumed.
func TestASuspendedJobWithAStartTimeIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := newJob("j", suspend)
		began := metav1.NewTime(time.Now().Add(-time.Hour))
		job.Status.StartTime = &began
		job.Status.Conditions = []batchv1.JobCondition{condition(batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended", time.Now())}
		api := start(t, job)
		settled(api)
		edit(t, api, "j", func(j *batchv1.Job) { j.Spec.Suspend = new(false) })
		settled(api)
		if s := get(t, api, "j").Status; s.Active != 1 || time.Since(s.StartTime.Time) > time.Minute {
			t.Errorf("%s, started %v", summary(get(t, api, "j")), s.StartTime)
		}
	})
}

// kubernetes/kubernetes#132614
func TestASuspendedJobOfNoCompletionsCompletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(1, 0), suspend))
		settled(api)
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 0 failed 0"+isComplete)
		if at := get(t, api, "j").Status.StartTime; at != nil {
			t.Errorf("it began at %v, and was suspended all the time", at)
		}
	})
}

// A suspended Job may be cut down to what it has completed.
func TestASuspendedJobThatIsCutDownCompletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(3, 3), withIndexes))
		changePod(t, api, podOf(t, api, 0), exits(0))
		settled(api)
		edit(t, api, "j", suspend)
		settled(api)
		edit(t, api, "j", of(1, 1))
		settled(api)
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 1 failed 0 completed [0] Suspended=True:JobSuspended"+isComplete)
	})
}

// kubernetes/kubernetes#109164
func TestWhatAnotherProcessLeftHalfDoneIsFinished(t *testing.T) {
	pod := func(name string, code int32, free bool) *corev1.Pod {
		p := newPod(name)
		p.UID = types.UID(name + "-uid")
		p.Labels = map[string]string{"controller-uid": "j"}
		exits(code)(p)
		if free {
			p.Finalizers = nil
		}
		return p
	}
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		gone []types.UID
		want string
	}{
		"listed and still tracked":       {pods: []*corev1.Pod{pod("a", 0, false), pod("b", 1, false)}, want: "succeeded 3 failed 2"},
		"listed and freed":               {pods: []*corev1.Pod{pod("a", 0, true), pod("b", 1, true)}, want: "succeeded 3 failed 2"},
		"listed and gone":                {want: "succeeded 3 failed 2"},
		"one of each":                    {pods: []*corev1.Pod{pod("a", 0, true), pod("b", 1, false)}, want: "succeeded 3 failed 2"},
		"and one that is not yet listed": {pods: []*corev1.Pod{pod("a", 0, true), pod("c", 0, false)}, want: "succeeded 4 failed 2"},
		"and one that is counted":        {pods: []*corev1.Pod{pod("a", 0, true), pod("c", 0, true)}, want: "succeeded 3 failed 2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				job := newJob("j", of(0, 10))
				job.UID = "j-uid"
				job.Status = batchv1.JobStatus{Succeeded: 2, Failed: 1, StartTime: &metav1.Time{Time: time.Now()},
					UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a-uid"}, Failed: []types.UID{"b-uid"}}}
				api := strict(t, job)
				for _, p := range c.pods {
					p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, jobKind)}
					api.Create(t, p)
				}
				api.Run(t, Descriptor())
				settled(api)
				expect(t, api, "j", "active 0 ready 0 terminating 0 "+c.want)
				if n := len(trackedPods(t, api)); n != 0 {
					t.Errorf("%d pods keep the finalizer", n)
				}
			})
		})
	}
}

// KEP-3850
func TestEachIndexIsTriedAgainByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := strict(t, newJob("j", of(4, 4), withIndexes, limitEach(1), func(j *batchv1.Job) { j.Spec.MaxFailedIndexes = new(int32(2)) }))
		r := api.Run(t, Descriptor())
		api.Settle()
		first := podOf(t, api, 1)
		if got := first.Annotations[batchv1.JobIndexFailureCountAnnotation]; got != "0" {
			t.Errorf("failures %q of a first pod", got)
		}
		changePod(t, api, first, exits(1))
		settled(api)
		if api.Get(t, first); !tracked(first) {
			t.Error("the failed pod is not kept until it is replaced")
		}
		r = again(t, api, r) // between the failure and the replacement
		api.Pass(5 * time.Second)
		if got := indexesOfActive(t, api); got != "0 2 3" {
			t.Errorf("indexes %s are active before the back-off is over", got)
		}
		api.Pass(4 * time.Second)
		second := podOf(t, api, 1)
		if got := second.Annotations[batchv1.JobIndexFailureCountAnnotation]; got != "1" {
			t.Errorf("failures %q of the second pod", got)
		}
		settled(api)
		expect(t, api, "j", "active 4 ready 0 terminating 0 succeeded 0 failed 1 completed [] lost []")
		changePod(t, api, second, exits(1))
		settled(api)
		again(t, api, r)
		api.Pass(time.Minute)
		expect(t, api, "j", "active 3 ready 0 terminating 0 succeeded 0 failed 2 completed [] lost [1]")
		finishAll(t, api, 0)
		settled(api)
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 3 failed 2 completed [0,2,3] lost [1]"+fmt.Sprintf(isFailed, "FailedIndexes"))
		expectEvents(t, api, "Warning FailedIndexes: Job has failed indexes")
	})
}

func TestTooManyLostIndexesEndTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(5, 5), withIndexes, limitEach(0), func(j *batchv1.Job) { j.Spec.MaxFailedIndexes = new(int32(1)) }))
		for _, index := range []int{1, 3} {
			changePod(t, api, podOf(t, api, index), exits(1))
			settled(api)
		}
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 0 failed 5 completed [] lost [1,3]"+fmt.Sprintf(isFailed, "MaxFailedIndexesExceeded"))
	})
}

// A process that stops between the two calls that delete a surplus pod leaves one whose end nobody would count.
func TestAPodWithoutTheFinalizerGetsItBackAndIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(2, 2)))
		p := activePods(t, api)[0]
		changePod(t, api, p, func(p *corev1.Pod) {
			runs(p)
			p.Finalizers = nil
		})
		settled(api)
		if api.Get(t, p); !tracked(p) || p.DeletionTimestamp != nil {
			t.Errorf("finalizers %v", p.Finalizers)
		}
		finishAll(t, api, 0)
		settled(api)
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 2 failed 0"+isComplete)
	})
}
