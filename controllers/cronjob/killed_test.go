package cronjob

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

// killedAfterCreate runs a CronJob to its first slot and kills the controller after it has created the Job and before it
// has recorded it.
func killedAfterCreate(t *testing.T, opts ...cronJobOption) (api *kittest.API, slot time.Time) {
	t.Helper()
	api = kittest.New(t, newCronJob("c", "*/10 * * * *", opts...))
	slot = time.Now().Add(10 * time.Minute)
	api.React(func(r *kittest.Request) *kittest.Reaction {
		if r.Subresource == "status" {
			return kittest.Refuse(503, "killed")
		}
		return nil
	})
	c := api.Run(t, Descriptor())
	api.Pass(10*time.Minute + 200*time.Millisecond)
	c.Stop()
	api.Unreact()
	if s := read(t, api, "c").Status; len(jobs(t, api)) != 1 || s.LastScheduleTime != nil {
		t.Fatalf("jobs %v, status %+v", jobs(t, api), s)
	}
	api.TakeWrites()
	return api, slot
}

func TestAJobThatWasNotRecordedIsFoundAgain(t *testing.T) {
	for _, p := range []batchv1.ConcurrencyPolicy{batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent} {
		t.Run(string(p), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, slot := killedAfterCreate(t, policy(p))
				n := len(api.Events())
				api.Run(t, Descriptor())
				api.Settle()
				api.Expect(t, "update batch/v1/cronjobs/status default/c")
				name := jobName("c", slot)
				if s := read(t, api, "c").Status; len(s.Active) != 1 || s.Active[0].Name != name || !s.LastScheduleTime.Time.Equal(slot) {
					t.Errorf("status %+v", s)
				}
				if got := told(api, n); !slices.Equal(got, []string{"Warning UnexpectedJob: Saw a job that the controller did not create or forgot: " + name}) {
					t.Errorf("events %q", got)
				}
			})
		})
	}
}

// TestForbidHoldsThoughTheRunningJobWasNotRecorded keeps the controller down until the next slot, too.
func TestForbidHoldsThoughTheRunningJobWasNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, slot := killedAfterCreate(t, policy(batchv1.ForbidConcurrent))
		api.Pass(11 * time.Minute)
		api.Run(t, Descriptor())
		api.Settle()
		if got := jobs(t, api); !slices.Equal(got, []string{jobName("c", slot)}) {
			t.Errorf("jobs %v", got)
		}
	})
}

// TestNoSlotIsRunTwiceThoughItsJobIsDeleted is about Jobs that were not recorded and finish while the controller is down:
// they exceed the history limit, or their TTL has expired before their CronJob is reconciled.
func TestNoSlotIsRunTwiceThoughItsJobIsDeleted(t *testing.T) {
	none := history(0, 0)
	for _, kind := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		synctest.Test(t, func(t *testing.T) {
			api, slot := killedAfterCreate(t, none)
			finish(t, api, jobName("c", slot), kind)
			c := api.Run(t, Descriptor())
			api.Settle()
			want := []string{"update batch/v1/cronjobs/status default/c", "delete batch/v1/jobs default/" + jobName("c", slot)}
			if got := api.TakeWrites(); !slices.Equal(got, want) {
				t.Errorf("writes %q, want %q in this order", got, want)
			}
			s := read(t, api, "c").Status
			if !s.LastScheduleTime.Time.Equal(slot) || (s.LastSuccessfulTime != nil) != (kind == batchv1.JobComplete) {
				t.Errorf("status %+v", s)
			}
			c.Stop()
			api.Run(t, Descriptor())
			api.Pass(9 * time.Minute)
			api.Expect(t)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		api, slot := killedAfterCreate(t)
		finish(t, api, jobName("c", slot), batchv1.JobComplete)
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "update" { // what the time to live does, before anything is recorded
				api.Unreact()
				api.Remove(t, jobOf(t, api, jobName("c", slot)))
				return kittest.Refuse(503, "try again")
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Pass(9 * time.Minute)
		if got := jobs(t, api); len(got) != 0 {
			t.Errorf("the slot was run again: %v", got)
		}
		if s := read(t, api, "c").Status; !s.LastScheduleTime.Time.Equal(slot) || len(s.Active) != 0 {
			t.Errorf("status %+v", s)
		}
		api.Pass(time.Minute)
		if got := jobs(t, api); !slices.Equal(got, []string{jobName("c", slot.Add(10*time.Minute))}) {
			t.Errorf("jobs %v", got)
		}
	})
}

func TestUnrecordedSlotsAreForgotten(t *testing.T) {
	cj := newCronJob("c", "* * * * *")
	cj.UID = "one"
	at := time.Unix(6000, 0)
	u := newUnrecordedSlots()
	u.add(key("c"), unrecordedSlot{"one", at})
	u.add(key("c"), unrecordedSlot{"one", at.Add(-time.Minute)})
	if n, ok := u.of(cj); !ok || !n.slot.Equal(at) {
		t.Errorf("unrecorded slot %v", n)
	}
	u.recorded(cj, &metav1.Time{Time: at.Add(-time.Minute)})
	if _, ok := u.of(cj); !ok {
		t.Error("forgotten before it was recorded")
	}
	u.recorded(cj, &metav1.Time{Time: at})
	if _, ok := u.of(cj); ok || len(u.slots) != 0 {
		t.Error("kept after it was recorded")
	}
	u.add(key("c"), unrecordedSlot{"one", at})
	cj.UID = "two"
	if _, ok := u.of(cj); ok {
		t.Error("another CronJob of that name has the slot")
	}
	u.add(key("c"), unrecordedSlot{"two", at.Add(-time.Hour)})
	if _, ok := u.of(cj); !ok {
		t.Error("the older CronJob's slot hides the newer one's")
	}
	w := &watches{unrecorded: u}
	w.rescheduled(cj, nil)
	if len(u.slots) != 0 {
		t.Error("kept after the CronJob was deleted")
	}
}

// TestAnUnansweredCreateIsNotRepeated breaks the connection after the server has stored the Job.
func TestAnUnansweredCreateIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newCronJob("c", "*/10 * * * *"))
		slot := time.Now().Add(10 * time.Minute)
		dropped := false
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" && !dropped {
				dropped = true
				return &kittest.Reaction{Drop: true}
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Pass(11 * time.Minute)
		if s := read(t, api, "c").Status; len(s.Active) != 1 || !s.LastScheduleTime.Time.Equal(slot) || len(jobs(t, api)) != 1 {
			t.Errorf("status %+v, jobs %v", s, jobs(t, api))
		}
	})
}

// TestAUserWhoWritesAtTheSlotLosesNothing changes the spec between the creation of the Job and the status update.
func TestAUserWhoWritesAtTheSlotLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newCronJob("c", "*/10 * * * *"))
		slot := time.Now().Add(10 * time.Minute)
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Subresource == "status" {
				api.Unreact()
				cj := read(t, api, "c")
				cj.Labels = map[string]string{"new": "label"}
				api.Update(t, cj)
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Pass(11 * time.Minute)
		if cj := read(t, api, "c"); len(cj.Status.Active) != 1 || !cj.Status.LastScheduleTime.Time.Equal(slot) || cj.Labels["new"] == "" {
			t.Errorf("%+v", cj)
		}
		if got := jobs(t, api); !slices.Equal(got, []string{jobName("c", slot)}) {
			t.Errorf("jobs %v", got)
		}
	})
}

// TestALaggingCacheStartsNothingTwice delays the informers.
func TestALaggingCacheStartsNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newCronJob("c", "* * * * *"))
		api.Run(t, Descriptor())
		api.Settle()
		slot := time.Now().Truncate(time.Minute).Add(time.Minute)
		api.FreezeWatch(ownerKind, true)
		api.FreezeWatch(batchv1.SchemeGroupVersion.WithKind("Job"), true)
		api.Pass(90 * time.Second)
		api.Expect(t, started(slot)...)
		api.FreezeWatch(ownerKind, false)
		api.FreezeWatch(batchv1.SchemeGroupVersion.WithKind("Job"), false)
		api.Settle()
		if got := jobs(t, api); len(got) != 1 || strings.Contains(strings.Join(told(api, 0), ""), "UnexpectedJob") {
			t.Errorf("jobs %v, events %q", got, told(api, 0))
		}
	})
}

// TestACacheThatIsBehindStartsNothing has another process run the slot, and the Job deleted, while the cache shows neither.
func TestACacheThatIsBehindStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newCronJob("c", "*/10 * * * *"))
		api.Run(t, Descriptor())
		api.Settle()
		slot := time.Now().Truncate(10 * time.Minute).Add(10 * time.Minute)
		api.FreezeWatch(ownerKind, true)
		cj := read(t, api, "c")
		cj.Status.LastScheduleTime = &metav1.Time{Time: slot}
		api.Update(t, cj)
		api.Pass(11 * time.Minute)
		api.Expect(t)
		api.FreezeWatch(ownerKind, false)
		api.Pass(5 * time.Minute)
		api.Expect(t)
		api.Pass(5 * time.Minute)
		api.Expect(t, started(slot.Add(10*time.Minute))...)
	})
}
