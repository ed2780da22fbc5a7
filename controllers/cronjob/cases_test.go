package cronjob

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

// Bugs that have occurred in practice, by their number in the Kubernetes issue tracker.

// kubernetes/kubernetes#121594: kube-controller-manager does so too, and a drop-in replacement must start the same Jobs.
func TestADailyRunHappensTwiceWhenClocksGoBackAndOnceWhenTheyGoForward(t *testing.T) {
	got := starts(t, "0 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z")
	if want := []string{"10-25T00:00", "10-25T01:00", "10-26T01:00"}; !slices.Equal(got, want) {
		t.Errorf("starts at %v, want %v", got, want)
	}
	got = starts(t, "30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", "2026-03-31T12:00:00Z")
	if want := []string{"03-28T01:30", "03-30T00:30", "03-31T00:30"}; !slices.Equal(got, want) {
		t.Errorf("2:30 does not exist on the 29th: starts at %v, want %v", got, want)
	}
}

// kubernetes/kubernetes#80577 and #78795
func TestAScheduleWithoutAZoneIsInThatOfTheProcess(t *testing.T) {
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	local := time.Local
	time.Local = zone
	defer func() { time.Local = local }()
	got := starts(t, "0 12 * * *", "", "2026-07-01T00:00:00Z", "2026-07-03T00:00:00Z")
	if want := []string{"07-01T19:00", "07-02T19:00"}; !slices.Equal(got, want) {
		t.Errorf("starts at %v, want %v", got, want)
	}
	got = starts(t, "0 12 * * *", "Asia/Tokyo", "2026-07-01T00:00:00Z", "2026-07-03T00:00:00Z")
	if want := []string{"07-01T03:00", "07-02T03:00"}; !slices.Equal(got, want) {
		t.Errorf("in Tokyo: starts at %v, want %v", got, want)
	}
	cj := newCronJob("c", "0 12 * * *")
	if j := newJob(cj, at(t, "2026-07-01T19:00:00Z"), time.UTC); j.Annotations[batchv1.CronJobScheduledTimestampAnnotation] != "2026-07-01T19:00:00Z" {
		t.Errorf("annotations %v: without a zone the slot is told in UTC", j.Annotations)
	}
}

// kubernetes/kubernetes#97098
func TestAJobThatWasStartedBeforeTheClockWasSetBackIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cj := newCronJob("c", "* * * * *")
		api := kittest.New(t, cj)
		slot := time.Now().Add(time.Minute)
		job := newJob(cj, slot, time.UTC)
		api.Create(t, job)
		api.Run(t, Descriptor())
		api.Settle()
		api.Pass(50 * time.Second)
		got := read(t, api, "c")
		if len(got.Status.Active) != 1 || got.Status.Active[0].UID != job.UID || !got.Status.LastScheduleTime.Time.Equal(slot) {
			t.Errorf("status %+v", got.Status)
		}
		api.TakeWrites()
		api.Pass(15 * time.Second)
		api.Expect(t)
		api.Pass(time.Minute)
		api.Expect(t, "create batch/v1/jobs default/"+jobName("c", slot.Add(time.Minute)), "update batch/v1/cronjobs/status default/c")
	})
}

// kubernetes/kubernetes#118706, #117166 and #121327
func TestACronJobIsLookedAtRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		uneven := newCronJob("uneven", "30 6-16/4 * * 1-5", policy(batchv1.ForbidConcurrent))
		running := newJob(uneven, time.Now().Add(-72*time.Hour), time.UTC)
		uneven.CreationTimestamp = metav1.NewTime(time.Now().Add(-90 * 24 * time.Hour))
		missed := newCronJob("missed", "0 12 * * 3", startBy(30))
		missed.CreationTimestamp = uneven.CreationTimestamp
		missed.Status.LastScheduleTime = &metav1.Time{Time: time.Now().Add(-19 * 24 * time.Hour)}
		api := kittest.New(t, uneven, missed)
		running.OwnerReferences[0].UID = read(t, api, "uneven").UID
		api.Create(t, running)
		uneven.Status.Active = []corev1.ObjectReference{refTo(running)}
		uneven.Status.LastScheduleTime = &metav1.Time{Time: time.Now().Add(-72 * time.Hour)}
		api.Update(t, uneven)
		api.Run(t, Descriptor())
		api.Settle()
		api.TakeWrites()
		before := len(api.Events())
		api.Pass(24 * time.Hour)
		api.Expect(t)
		if n := len(api.Events()) - before; n > 4 {
			t.Errorf("looked at %d times in a day", n)
		}
	})
}

// rackerlabs/spot#323
func TestActiveJobsThatNoLongerExistDoNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cj := newCronJob("c", "* * * * *", policy(batchv1.ForbidConcurrent))
		for _, name := range []string{"gone", "replaced", "released"} {
			cj.Status.Active = append(cj.Status.Active, corev1.ObjectReference{Kind: "Job", APIVersion: "batch/v1", Namespace: "default", Name: name, UID: "of the old one"})
		}
		cj.Status.LastScheduleTime = &metav1.Time{Time: time.Now()}
		replaced := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "replaced"}}
		api := kittest.New(t, replaced)
		released := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "released"}}
		end(released, batchv1.JobComplete, time.Now())
		api.Create(t, released)
		cj.Status.Active[2].UID = released.UID
		cj.Status.Active[1].UID = "another"
		api.Create(t, cj)
		api.Run(t, Descriptor())
		api.Settle()
		if got := read(t, api, "c"); len(got.Status.Active) != 0 {
			t.Errorf("active %v", got.Status.Active)
		}
		want := []string{
			"Normal MissingJob: Active job went missing: gone", "Normal MissingJob: Active job went missing: replaced",
			"Normal SawCompletedJob: Saw completed job: released, condition: Complete",
		}
		if got := told(api, 0); !slices.Equal(got, want) {
			t.Errorf("events %q", got)
		}
		api.TakeWrites()
		api.Pass(time.Minute + time.Second)
		if w := api.TakeWrites(); len(w) == 0 || !strings.HasPrefix(w[0], "create batch/v1/jobs") {
			t.Errorf("the next slot: %v", w)
		}
	})
}

// TestEntriesThatNameNoJobDoNotBlock has an active list that was written by hand.
func TestEntriesThatNameNoJobDoNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cj := newCronJob("c", "* * * * *", policy(batchv1.ForbidConcurrent))
		cj.Status.Active = []corev1.ObjectReference{{Name: "nowhere"}, {Namespace: "default", UID: "u"}}
		api := kittest.New(t, cj)
		api.Run(t, Descriptor())
		api.Settle()
		if got := told(api, 0); !slices.Equal(got, []string{"Normal MissingJob: Active job went missing: nowhere", "Normal MissingJob: Active job went missing: "}) {
			t.Errorf("events %q", got)
		}
		api.Pass(time.Minute + time.Second)
		if got := read(t, api, "c").Status.Active; len(got) != 1 || len(jobs(t, api)) != 1 {
			t.Errorf("active %v, jobs %v", got, jobs(t, api))
		}
	})
}

// kubernetes/kubernetes#136920
func TestAJobOfSomeoneElseHasTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newCronJob("c", "* * * * *"))
		slot := time.Now().Add(time.Minute)
		api.Create(t, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: jobName("c", slot)}})
		api.Run(t, Descriptor())
		api.Pass(time.Minute + time.Second)
		api.Expect(t)
		if got := read(t, api, "c"); len(got.Status.Active) != 0 || got.Status.LastScheduleTime != nil {
			t.Errorf("status %+v", got.Status)
		}
		api.Pass(time.Minute)
		api.Expect(t, "create batch/v1/jobs default/"+jobName("c", slot.Add(time.Minute)), "update batch/v1/cronjobs/status default/c")
	})
}

// kubernetes/kubernetes#133313: the CronJob was deleted without its Jobs and created again under the same name.
func TestJobsOfANamesakeAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := newCronJob("c", "* * * * *")
		old.UID = "of the old one"
		api := kittest.New(t)
		running, over := newJob(old, time.Now().Add(-2*time.Minute), time.UTC), newJob(old, time.Now().Add(-time.Minute), time.UTC)
		end(over, batchv1.JobComplete, time.Now())
		api.Create(t, running)
		api.Create(t, over)
		api.Create(t, newCronJob("c", "* * * * *", policy(batchv1.ForbidConcurrent), history(0, 0)))
		api.Run(t, Descriptor())
		api.Settle()
		api.Expect(t)
		slot := time.Now().Add(time.Minute)
		api.Pass(time.Minute + time.Second)
		api.Expect(t, started(slot)...)
		if got := told(api, 0); !slices.Equal(got, []string{"Normal SuccessfulCreate: Created job " + jobName("c", slot)}) {
			t.Errorf("events %q", got)
		}
	})
}

// kubernetes/kubernetes#118276
func TestAJobThatAUserStartsCountsAsSuccessAndBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newCronJob("c", "0 * * * *", policy(batchv1.ForbidConcurrent)))
		api.Run(t, Descriptor())
		hour := time.Now().Add(time.Hour)
		manual := func(name string) *batchv1.Job {
			j := newJob(read(t, api, "c"), time.Now(), time.UTC)
			j.Name, j.Annotations = name, map[string]string{"cronjob.kubernetes.io/instantiate": "manual"}
			return j
		}
		api.Create(t, manual("by-hand"))
		api.Settle()
		finish(t, api, "by-hand", batchv1.JobComplete)
		s := read(t, api, "c").Status
		if s.LastSuccessfulTime == nil || s.LastScheduleTime != nil || len(s.Active) != 0 {
			t.Errorf("status %+v", s)
		}
		api.Create(t, manual("runs"))
		api.Pass(time.Hour + time.Second)
		if got := read(t, api, "c").Status.Active; len(got) != 1 || got[0].Name != jobName("c", hour) {
			t.Errorf("active %v, want the Job of the slot alone", got)
		}
	})
}

// TestAQuotaOfJobsIsNoDeadlock has a quota that allows the next Job only after an old one was deleted in the same reconcile.
func TestAQuotaOfJobsIsNoDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newCronJob("c", "* * * * *", history(1, 0)))
		for ago := range 2 {
			j := newJob(read(t, api, "c"), time.Now().Add(-time.Duration(ago)*time.Minute), time.UTC)
			end(j, batchv1.JobComplete, time.Now())
			api.Create(t, j)
		}
		refused := 0
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" && len(jobs(t, api)) >= 2 {
				refused++
				return kittest.Refuse(403, "exceeded quota")
			}
			return nil
		})
		slot := time.Now().Add(time.Minute)
		time.Sleep(90 * time.Second)
		api.Run(t, Descriptor())
		api.Pass(time.Second)
		if got := jobs(t, api); refused == 0 || !slices.Contains(got, jobName("c", slot)) {
			t.Errorf("refused %d times, jobs %v, want one for the slot", refused, got)
		}
	})
}
