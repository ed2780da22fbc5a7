package job

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/internal/podctl"
	"orrery/kit/kittest"
)

func TestOnePodRunsToCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := strict(t, newJob("j"))
		api.Run(t, Descriptor())
		api.Pass(50 * time.Millisecond) // no fixed delay before a fresh Job
		all := allPods(t, api)
		if len(all) != 1 || !tracked(all[0]) || metav1.GetControllerOf(all[0]) == nil || all[0].GenerateName != "j-" {
			t.Fatalf("pods %+v", all)
		}
		expect(t, api, "j", "active 1 ready 0 terminating 0 succeeded 0 failed 0")
		if get(t, api, "j").Status.StartTime == nil {
			t.Error("no start time")
		}
		api.Pass(5 * time.Second)
		changePod(t, api, all[0], runs)
		api.Pass(150 * time.Millisecond)
		expect(t, api, "j", "active 1 ready 1 terminating 0 succeeded 0 failed 0")
		api.Pass(5 * time.Second)
		changePod(t, api, all[0], exits(0))
		api.Pass(150 * time.Millisecond) // nor before the end
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 1 failed 0"+isComplete)
		if len(trackedPods(t, api)) != 0 {
			t.Error("the pod still has the finalizer")
		}
		settled(api)
		expectEvents(t, api, "Normal Completed: Job completed")
		if n := count(api.Writes(), statusWrites); n != 4 {
			t.Errorf("%d writes of the status, want 4: %q", n, api.Writes())
		}
		api.TakeWrites()
		api.Run(t, Descriptor())
		settled(api)
		api.Expect(t)
	})
}

func TestParallelPodsAndCompletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(3, 8)))
		for done := int32(0); done < 8; done++ {
			want := int(min(3, 8-done))
			if n := len(activePods(t, api)); n != want {
				t.Fatalf("after %d: %d pods are active, want %d", done, n, want)
			}
			changePod(t, api, activePods(t, api)[0], exits(0))
			settled(api)
		}
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 8 failed 0"+isComplete)
	})
}

func TestAWorkQueueEndsWithItsLastPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", workQueue(3)))
		changePod(t, api, activePods(t, api)[0], exits(0))
		settled(api)
		expect(t, api, "j", "active 2 ready 0 terminating 0 succeeded 1 failed 0")
		changePod(t, api, activePods(t, api)[0], exits(1))
		settled(api)
		expect(t, api, "j", "active 1 ready 0 terminating 0 succeeded 1 failed 1")
		changePod(t, api, activePods(t, api)[0], exits(0))
		settled(api)
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 2 failed 1"+isComplete)
	})
}

func TestParallelismFollowsTheSpec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(2, 10)))
		edit(t, api, "j", of(5, 10))
		api.Settle()
		expect(t, api, "j", "active 5 ready 0 terminating 0 succeeded 0 failed 0")
		changePod(t, api, activePods(t, api)[1], runs)
		settled(api)
		edit(t, api, "j", of(1, 10))
		settled(api)
		// The one that runs stays; what is too many is not a failure.
		expect(t, api, "j", "active 1 ready 1 terminating 0 succeeded 0 failed 0")
		if left := allPods(t, api); len(left) != 1 || left[0].Status.Phase != corev1.PodRunning {
			t.Errorf("%d pods are left, phase %s", len(left), left[0].Status.Phase)
		}
		edit(t, api, "j", of(0, 10))
		settled(api)
		expect(t, api, "j", "active 0 ready 0 terminating 1 succeeded 0 failed 0")
		api.Remove(t, allPods(t, api)[0])
		settled(api)
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 0 failed 0")
	})
}

func TestTooManyFailuresEndTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(2, 2), limit(1)))
		keep := activePods(t, api)
		changePod(t, api, keep[0], runs)
		changePod(t, api, keep[1], exits(3))
		api.Pass(15 * time.Second)
		expect(t, api, "j", "active 2 ready 1 terminating 0 succeeded 0 failed 1")
		for _, p := range activePods(t, api) {
			if p.Name != keep[0].Name {
				changePod(t, api, p, exits(3))
			}
		}
		settled(api)
		// The other pod runs on a node and takes its time. It is one of the failed ones.
		expect(t, api, "j", "active 0 ready 0 terminating 1 succeeded 0 failed 3 FailureTarget=True:BackoffLimitExceeded")
		if len(trackedPods(t, api)) != 0 || len(eventsOf(api)) != 0 {
			t.Errorf("%d pods are kept, events %q", len(trackedPods(t, api)), eventsOf(api))
		}
		api.Remove(t, keep[0])
		settled(api)
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 0 failed 3"+fmt.Sprintf(isFailed, "BackoffLimitExceeded"))
		expectEvents(t, api, "Warning BackoffLimitExceeded: Job has reached the specified backoff limit")
	})
}

func TestRestartsOfContainersCountTowardsTheLimit(t *testing.T) {
	for restarts, over := range map[int32]bool{2: false, 3: true} {
		synctest.Test(t, func(t *testing.T) {
			api := start(t, newJob("j", limit(3), func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }))
			changePod(t, api, allPods(t, api)[0], func(p *corev1.Pod) {
				runs(p)
				p.Status.ContainerStatuses[0].RestartCount = restarts - 1
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i", RestartCount: 1}}
			})
			settled(api)
			if got := isTrue(get(t, api, "j"), batchv1.JobFailureTarget) != nil; got != over {
				t.Errorf("%d restarts: over %t, want %t: %s", restarts, got, over, summary(get(t, api, "j")))
			}
		})
	}
}

func TestTheDeadlineEndsTheJobOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = new(int64(60)) }))
		api.Pass(58 * time.Second)
		expect(t, api, "j", "active 1 ready 0 terminating 0 succeeded 0 failed 0")
		api.Pass(2 * time.Second)
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 0 failed 1"+fmt.Sprintf(isFailed, "DeadlineExceeded"))
		expectEvents(t, api, "Warning DeadlineExceeded: Job was active longer than specified deadline")
		if len(allPods(t, api)) != 0 {
			t.Error("the pod is still there")
		}
	})
}

func TestALaterDeadlineIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = new(int64(60)) }))
		api.Pass(30 * time.Second)
		edit(t, api, "j", func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = new(int64(90)) })
		api.Pass(55 * time.Second)
		expect(t, api, "j", "active 1 ready 0 terminating 0 succeeded 0 failed 0")
		edit(t, api, "j", func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = new(int64(1)) })
		api.Pass(time.Second)
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 0 failed 1"+fmt.Sprintf(isFailed, "DeadlineExceeded"))
	})
}

func TestADeletedPodIsReplacedByThePolicy(t *testing.T) {
	for name, c := range map[string]struct {
		opts         []jobOption
		while, after string
		during, pods int
	}{
		"at once":            {nil, "active 1 ready 0 terminating 1 succeeded 0 failed 1", "active 1 ready 0 terminating 0 succeeded 0 failed 1", 2, 1},
		"once it has failed": {[]jobOption{failedOnly}, "active 0 ready 0 terminating 1 succeeded 0 failed 0", "active 1 ready 0 terminating 0 succeeded 0 failed 1", 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := start(t, newJob("j", c.opts...))
				p := allPods(t, api)[0]
				changePod(t, api, p, runs)
				settled(api)
				api.Delete(t, p)
				api.Pass(11 * time.Second)
				expect(t, api, "j", c.while)
				if n := len(allPods(t, api)); n != c.during {
					t.Errorf("%d pods while one goes, want %d", n, c.during)
				}
				if name == "at once" {
					api.Remove(t, p)
				} else {
					changePod(t, api, p, exits(137))
				}
				api.Pass(11 * time.Second)
				expect(t, api, "j", c.after)
			})
		})
	}
}

func TestSuspendAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(2, 2), suspend, func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = new(int64(100)) }))
		api.Pass(10 * time.Minute)
		if j := get(t, api, "j"); j.Status.StartTime != nil || len(allPods(t, api)) != 0 {
			t.Errorf("a suspended Job has started: %+v", j.Status)
		}
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 0 failed 0 Suspended=True:JobSuspended")
		edit(t, api, "j", func(j *batchv1.Job) { j.Spec.Suspend = new(false) })
		api.Settle()
		resumed := time.Now()
		expect(t, api, "j", "active 2 ready 0 terminating 0 succeeded 0 failed 0 Suspended=False:JobResumed")
		if s := get(t, api, "j").Status.StartTime; s == nil || resumed.Sub(s.Time) > 2*time.Second {
			t.Errorf("started %v, resumed %v", s, resumed)
		}
		changePod(t, api, activePods(t, api)[0], runs)
		api.Pass(50 * time.Second)
		edit(t, api, "j", suspend)
		settled(api)
		expect(t, api, "j", "active 0 ready 0 terminating 1 succeeded 0 failed 0 Suspended=True:JobSuspended")
		if j := get(t, api, "j"); j.Status.StartTime != nil {
			t.Errorf("the start time is kept: %v", j.Status.StartTime)
		}
		if left := allPods(t, api); len(left) != 1 || tracked(left[0]) {
			t.Errorf("pods %v", left)
		}
		api.Remove(t, allPods(t, api)[0])
		api.Pass(10 * time.Minute)
		edit(t, api, "j", func(j *batchv1.Job) { j.Spec.Suspend = new(false) })
		settled(api)
		finishAll(t, api, 0)
		settled(api)
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 2 failed 0 Suspended=False:JobResumed"+isComplete)
		expectEvents(t, api, "Normal Suspended: Job suspended", "Normal Resumed: Job resumed",
			"Normal Suspended: Job suspended", "Normal Resumed: Job resumed", "Normal Completed: Job completed")
	})
}

func TestWithTheGateOffTheStartTimeStaysWhileSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := strict(t, newJob("j"))
		api.SetGate(string(mutableScheduling), false)
		api.Run(t, Descriptor())
		settled(api)
		began := get(t, api, "j").Status.StartTime
		edit(t, api, "j", suspend)
		settled(api)
		if s := get(t, api, "j").Status.StartTime; s == nil || !s.Equal(began) {
			t.Errorf("start time %v, want %v", s, began)
		}
		api.Pass(time.Minute)
		edit(t, api, "j", func(j *batchv1.Job) { j.Spec.Suspend = new(false) })
		settled(api)
		if s := get(t, api, "j").Status.StartTime; s == nil || time.Since(s.Time) > 5*time.Second {
			t.Errorf("start time %v, want that of the resumption", s)
		}
	})
}

func TestJobsOfAnotherControllerAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", func(j *batchv1.Job) { j.Spec.ManagedBy = new("example.com/queue") }),
			newJob("own", func(j *batchv1.Job) { j.Spec.ManagedBy = new(batchv1.JobControllerName) }))
		settled(api)
		if all := allPods(t, api); len(all) != 1 || all[0].GenerateName != "own-" {
			t.Errorf("pods %v", all)
		}
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 0 failed 0")
	})
}

func TestAnUnknownModeIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", func(j *batchv1.Job) { j.Spec.CompletionMode = new(batchv1.CompletionMode("Sideways")) }))
		expectEvents(t, api, "Warning UnknownCompletionMode: Skipped Job sync because completion mode is unknown")
		api.Expect(t)
	})
}

func TestNothingToDoIsCompleteAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(1, 0)))
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 0 failed 0"+isComplete)
		api.Expect(t, statusWrites+" default/j") // no pod has to be freed between the two conditions
	})
}

func TestPodsAreAdoptedAndReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(2, 2)))
		two := activePods(t, api)
		changePod(t, api, two[0], func(p *corev1.Pod) { p.OwnerReferences = nil })
		settled(api)
		if !api.Get(t, two[0]) || !tracked(two[0]) || podctl.ControllerOf(two[0]) != get(t, api, "j").UID {
			t.Errorf("the orphan was not taken back: %v %v", two[0].OwnerReferences, two[0].Finalizers)
		}
		changePod(t, api, two[1], func(p *corev1.Pod) { p.Labels = map[string]string{"gone": "fishing"} })
		settled(api)
		if !api.Get(t, two[1]) || tracked(two[1]) || podctl.ControllerOf(two[1]) != "" {
			t.Errorf("the stranger was not let go: %v %v", two[1].OwnerReferences, two[1].Finalizers)
		}
		expect(t, api, "j", "active 2 ready 0 terminating 0 succeeded 0 failed 0")
		if n := len(allPods(t, api)); n != 3 {
			t.Errorf("%d pods, want a third", n)
		}
		// One that has ended before it is adopted is counted.
		stray := allPods(t, api)[0].DeepCopy()
		stray.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "stray", Labels: two[0].Labels}
		exits(0)(stray)
		api.Create(t, stray)
		settled(api)
		expect(t, api, "j", "active 1 ready 0 terminating 0 succeeded 1 failed 0")
	})
}

func TestACountedPodIsReleasedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(1, 2)))
		p := activePods(t, api)[0]
		finishAll(t, api, 0)
		settled(api)
		changePod(t, api, p, func(p *corev1.Pod) { p.Labels = map[string]string{"gone": "fishing"} })
		settled(api)
		if api.Get(t, p); podctl.ControllerOf(p) != "" {
			t.Errorf("owners %v", p.OwnerReferences)
		}
		expect(t, api, "j", "active 1 ready 0 terminating 0 succeeded 1 failed 0")
	})
}

func TestADeletedJobFreesItsPods(t *testing.T) {
	foreground := metav1.DeletePropagationForeground
	for name, how := range map[string]func(t *testing.T, api *kittest.API){
		"in the foreground": func(t *testing.T, api *kittest.API) {
			api.DeleteWith(t, get(t, api, "j"), metav1.DeleteOptions{PropagationPolicy: &foreground})
		},
		"in the background": func(t *testing.T, api *kittest.API) { api.Delete(t, get(t, api, "j")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := start(t, newJob("j", of(3, 3)))
				changePod(t, api, activePods(t, api)[0], runs)
				how(t, api)
				settled(api)
				if n := len(trackedPods(t, api)); n != 0 {
					t.Errorf("%d pods still have the finalizer", n)
				}
				if n := len(allPods(t, api)); n != 3 {
					t.Errorf("%d pods, want the 3 that the garbage collector deletes", n)
				}
			})
		})
	}
}

func TestOrphansLoseTheFinalizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lone := newPod("lone")
		api := start(t, lone)
		settled(api)
		if api.Get(t, lone); tracked(lone) {
			t.Error("a pod without a controller keeps the finalizer")
		}
		// Deleted while its Job is gone, or over.
		yes := true
		owned := newPod("owned")
		owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "gone", Controller: &yes}}
		api.Create(t, owned)
		settled(api)
		if api.Get(t, owned); !tracked(owned) {
			t.Error("the pod of a Job that the cache may not show yet was freed")
		}
		api.Delete(t, owned)
		settled(api)
		if api.Get(t, owned) {
			t.Error("a deleted pod of a Job that is gone stays")
		}
		foreign := newPod("foreign")
		foreign.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Job", Name: "j", UID: "x", Controller: &yes}}
		api.Create(t, foreign)
		api.Delete(t, foreign)
		settled(api)
		if api.Get(t, foreign); !tracked(foreign) {
			t.Error("the pod of another kind of owner was freed")
		}
	})
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Finalizers: []string{batchv1.JobTrackingFinalizer}, Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "img"}}},
	}
}

func TestPodsOfAJobThatEndsElsewhereAreFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j"), newJob("other", func(j *batchv1.Job) { j.Spec.ManagedBy = new("example.com/queue") }))
		p := allPods(t, api)[0]
		over := batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}
		edit(t, api, "j", func(j *batchv1.Job) { j.Status.Conditions = append(j.Status.Conditions, over) })
		settled(api)
		if api.Get(t, p); tracked(p) {
			t.Error("a pod of a finished Job keeps the finalizer")
		}
		theirs := newPod("theirs")
		theirs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(get(t, api, "other"), jobKind)}
		api.Create(t, theirs)
		edit(t, api, "other", func(j *batchv1.Job) { j.Status.Conditions = append(j.Status.Conditions, over) })
		api.Delete(t, theirs)
		settled(api)
		if api.Get(t, theirs); !tracked(theirs) {
			t.Error("a pod of another controller's Job was freed")
		}
		if slices.ContainsFunc(api.Writes(), func(w string) bool { return w == "patch v1/pods default/theirs" }) {
			t.Error("it was written to")
		}
	})
}
