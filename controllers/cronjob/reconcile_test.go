package cronjob

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"orrery/kit/kittest"
)

// started returns the write that creates the Job of a slot, and the one that records it.
func started(slot time.Time) []string {
	return []string{"create batch/v1/jobs default/" + jobName("c", slot), "update batch/v1/cronjobs/status default/c"}
}

func TestASlotStartsAJobThatIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokyo := "Asia/Tokyo"
		cj := newCronJob("c", "*/5 * * * *", func(cj *batchv1.CronJob) {
			cj.Spec.TimeZone = &tokyo
			cj.Spec.JobTemplate.Labels = map[string]string{"a": "b"}
			cj.Spec.JobTemplate.Annotations = map[string]string{"c": "d"}
			cj.Spec.JobTemplate.Name, cj.Spec.JobTemplate.Finalizers = "ignored", []string{"is/ignored"}
			cj.Spec.JobTemplate.Spec.Parallelism = new(int32(2))
		})
		api := kittest.New(t, cj)
		api.Run(t, Descriptor())
		slot := time.Now().Add(5 * time.Minute)
		api.Pass(5*time.Minute - time.Millisecond)
		api.Expect(t)
		api.Pass(time.Second)
		api.Expect(t, started(slot)...)
		stored := read(t, api, "c")
		got := jobOf(t, api, fmt.Sprintf("c-%d", slot.Unix()/60))
		want := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: got.Name, UID: got.UID, ResourceVersion: got.ResourceVersion, CreationTimestamp: got.CreationTimestamp, Generation: 1,
				Labels:      map[string]string{"a": "b"},
				Annotations: map[string]string{"c": "d", "batch.kubernetes.io/cronjob-scheduled-timestamp": "2000-01-01T09:05:00+09:00"},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "batch/v1", Kind: "CronJob", Name: "c", UID: stored.UID, Controller: new(true), BlockOwnerDeletion: new(true),
				}},
			},
			Spec: stored.Spec.JobTemplate.Spec,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("job (-want +got):\n%s", diff)
		}
		ref := corev1.ObjectReference{Kind: "Job", APIVersion: "batch/v1", Namespace: "default", Name: got.Name, UID: got.UID, ResourceVersion: got.ResourceVersion}
		if s := stored.Status; !slices.Equal(s.Active, []corev1.ObjectReference{ref}) || !s.LastScheduleTime.Time.Equal(slot) || s.LastSuccessfulTime != nil {
			t.Errorf("status %+v", s)
		}
		finish(t, api, got.Name, batchv1.JobComplete)
		done := time.Now().Truncate(time.Second)
		if s := read(t, api, "c").Status; len(s.Active) != 0 || s.LastSuccessfulTime == nil || s.LastSuccessfulTime.Time.After(done) || !s.LastScheduleTime.Time.Equal(slot) {
			t.Errorf("status after the Job %+v", s)
		}
		if got, want := told(api, 0), []string{"Normal SuccessfulCreate: Created job " + got.Name, "Normal SawCompletedJob: Saw completed job: " + got.Name + ", condition: Complete"}; !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}

func TestPoliciesDecideWhileAJobRuns(t *testing.T) {
	for p, want := range map[batchv1.ConcurrencyPolicy]struct {
		writes func(first, second time.Time) []string
		event  string
		active int
	}{
		batchv1.AllowConcurrent: {func(_, second time.Time) []string { return started(second) }, "Normal SuccessfulCreate: Created job ", 2},
		batchv1.ForbidConcurrent: {func(_, _ time.Time) []string { return nil },
			"Normal JobAlreadyActive: Not starting job because prior execution is running and concurrency policy is Forbid", 1},
		batchv1.ReplaceConcurrent: {func(first, second time.Time) []string {
			return append(started(second), "delete batch/v1/jobs default/"+jobName("c", first))
		}, "Normal SuccessfulDelete: Deleted job ", 1},
	} {
		t.Run(string(p), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := kittest.New(t, newCronJob("c", "* * * * *", policy(p)))
				api.Run(t, Descriptor())
				first := time.Now().Add(time.Minute)
				api.Pass(time.Minute + time.Second)
				api.Expect(t, started(first)...)
				n := len(api.Events())
				api.Pass(time.Minute)
				api.Expect(t, want.writes(first, first.Add(time.Minute))...)
				if got := told(api, n); len(got) == 0 || !strings.HasPrefix(got[0], want.event) {
					t.Errorf("events %q, want %q", got, want.event)
				}
				if s := read(t, api, "c").Status; len(s.Active) != want.active {
					t.Errorf("active %v", s.Active)
				}
				if p == batchv1.ForbidConcurrent { // the slot that waited is made up for as soon as it can be
					finish(t, api, jobName("c", first), batchv1.JobFailed)
					if !slices.Contains(jobs(t, api), jobName("c", first.Add(time.Minute))) {
						t.Errorf("jobs %v", jobs(t, api))
					}
				}
			})
		})
	}
}

func TestAReplacementWaitsForTheDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newCronJob("c", "* * * * *", policy(batchv1.ReplaceConcurrent)))
		api.Run(t, Descriptor())
		first := time.Now().Add(time.Minute)
		api.Pass(time.Minute + time.Second)
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "delete" {
				return kittest.Refuse(403, "not now")
			}
			return nil
		})
		api.Pass(time.Minute)
		if got := jobs(t, api); !slices.Equal(got, []string{jobName("c", first)}) {
			t.Errorf("jobs %v", got)
		}
		if got := told(api, 1); len(got) == 0 || !strings.HasPrefix(got[0], "Warning FailedDelete: Deleted job: ") {
			t.Errorf("events %q", got)
		}
		api.Unreact()
		api.Pass(time.Minute)
		if got := read(t, api, "c").Status.Active; len(got) != 1 || got[0].Name == jobName("c", first) {
			t.Errorf("active %v", got)
		}
	})
}

// TestAReplacedJobThatIsSlowToGoIsNotActive has a Job that is kept by a finalizer.
func TestAReplacedJobThatIsSlowToGoIsNotActive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newCronJob("c", "*/10 * * * *", policy(batchv1.ReplaceConcurrent)))
		api.Run(t, Descriptor())
		first := time.Now().Add(10 * time.Minute)
		api.Pass(10*time.Minute + time.Second)
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: jobName("c", first)}}
		if !api.Get(t, j) {
			t.Fatal("no job")
		}
		j.Finalizers = []string{"example.com/slow"}
		api.Update(t, j)
		second := first.Add(10 * time.Minute)
		api.Pass(15 * time.Minute)
		if s := read(t, api, "c").Status; len(s.Active) != 1 || s.Active[0].Name != jobName("c", second) {
			t.Errorf("active %v, want the second job alone", s.Active)
		}
		api.Pass(10 * time.Minute)
		n := 0
		for _, e := range told(api, 0) {
			if e == "Normal SuccessfulDelete: Deleted job "+jobName("c", first) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("the first job was deleted %d times: %q", n, told(api, 0))
		}
	})
}

func TestNothingStartsWhileSuspendedOrGoingOrOutOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		going := newCronJob("going", "* * * * *", func(cj *batchv1.CronJob) {
			cj.Finalizers = []string{"keep/it"}
			now := metav1.Now()
			cj.DeletionTimestamp = &now
		})
		yesterday := func(cj *batchv1.CronJob) { cj.CreationTimestamp = metav1.NewTime(time.Now().Add(-24 * time.Hour)) }
		api := kittest.New(t, going, newCronJob("c", "* * * * *", suspended(true)),
			newCronJob("late", "0 0 * * *", startBy(600), func(cj *batchv1.CronJob) {
				cj.CreationTimestamp = metav1.NewTime(time.Now().Add(-24 * time.Hour))
			}),
			newCronJob("zero", "* * * * *", startBy(0), yesterday),
		)
		time.Sleep(11 * time.Minute)
		api.Run(t, Descriptor())
		api.Pass(time.Hour)
		api.Expect(t)
		if got := told(api, 0); len(got) != 0 {
			t.Errorf("events %q", got)
		}
		slot := time.Now().Truncate(time.Minute) // the last that was missed, and no other
		change(t, api, "c", suspended(false))
		api.Expect(t, started(slot)...)
	})
}

func TestMissedSlots(t *testing.T) {
	for _, tc := range []struct {
		name    string
		missed  time.Duration
		options []cronJobOption
		events  []string
	}{
		{"few", 100 * time.Minute, nil, nil},
		{"many", 102 * time.Minute, nil, []string{"Warning TooManyMissedTimes: too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"}},
		{"many, and a deadline", 102 * time.Minute, []cronJobOption{startBy(300)}, nil},
		{"few, and a deadline without end", 100 * time.Minute, []cronJobOption{startBy(math.MaxInt64)}, nil},
		{"few, and one almost without", 100 * time.Minute, []cronJobOption{startBy(9_999_999_999)}, nil},
		{"decades", 25 * 365 * 24 * time.Hour, []cronJobOption{startBy(300)}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cj := newCronJob("c", "* * * * *", tc.options...)
				cj.Status.LastScheduleTime = &metav1.Time{Time: time.Now().Add(-tc.missed)}
				api := kittest.New(t, cj)
				api.Run(t, Descriptor())
				api.Settle()
				if got := jobs(t, api); !slices.Equal(got, []string{jobName("c", time.Now())}) {
					t.Errorf("jobs %v, want one for the last slot", got)
				}
				if got := told(api, 0); !slices.Equal(got, append(tc.events, "Normal SuccessfulCreate: Created job "+jobName("c", time.Now()))) {
					t.Errorf("events %q", got)
				}
			})
		})
	}
}

func TestASlotBeyondItsDeadlineIsNotStarted(t *testing.T) {
	now := time.Now()
	v := &view{cj: newCronJob("c", "* * * * *", startBy(10)), now: now}
	if got := v.judge(now.Add(-11 * time.Second)); got != late {
		t.Errorf("verdict %d", got)
	}
	if got := v.judge(now.Add(-10 * time.Second)); got != start {
		t.Errorf("verdict %d", got)
	}
}

func TestWhatCannotBeUsedIsToldAndWaitsForAChange(t *testing.T) {
	for _, tc := range []struct {
		schedule, zone, event string
	}{
		{"* * * * *", "Moon/Base", `Warning UnknownTimeZone: invalid timeZone: "Moon/Base": unknown time zone Moon/Base`},
		{"not a schedule", "", `Warning UnparseableSchedule: unparseable schedule: "not a schedule" : expected exactly 5 fields, found 3: [not a schedule]`},
		{"0 0 31 2 *", "", "Warning InvalidSchedule: invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second"},
		{"TZ=Europe/Berlin 0 0 1 1 *", "", `Warning UnsupportedSchedule: CRON_TZ or TZ used in schedule "TZ=Europe/Berlin 0 0 1 1 *" is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details`},
	} {
		synctest.Test(t, func(t *testing.T) {
			cj := newCronJob("c", tc.schedule)
			if tc.zone != "" {
				cj.Spec.TimeZone = &tc.zone
			}
			api := kittest.New(t, cj)
			api.Run(t, Descriptor())
			api.Pass(24 * time.Hour)
			api.Expect(t)
			if got := told(api, 0); !slices.Equal(got, []string{tc.event}) {
				t.Errorf("events %q, want %q", got, tc.event)
			}
			change(t, api, "c", func(cj *batchv1.CronJob) { cj.Spec.Schedule = "broken" })
			if got := told(api, 1); tc.zone == "" && !slices.Equal(got, []string{"Warning UnParseableCronJobSchedule: unparseable schedule for cronjob: broken"}) {
				t.Errorf("events %q", got)
			}
		})
	}
}

func TestANewScheduleThatNeverFiresIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newCronJob("c", "0 0 1 1 *"))
		api.Run(t, Descriptor())
		change(t, api, "c", func(cj *batchv1.CronJob) { cj.Spec.Schedule = "0 0 31 2 *" })
		api.Expect(t)
		want := "Warning InvalidSchedule: invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second"
		if got := told(api, 0); !slices.Equal(got, []string{want}) {
			t.Errorf("events %q", got)
		}
	})
}

// TestANewScheduleWaitsForItsNextSlot: slots between the last run and a change of the schedule are not run at the time of
// the change.
func TestANewScheduleWaitsForItsNextSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newCronJob("c", "0 2 * * *"))
		api.Run(t, Descriptor())
		day := time.Now()
		api.Pass(10 * time.Hour)
		api.TakeWrites()
		change(t, api, "c", func(cj *batchv1.CronJob) { cj.Spec.Schedule = "0 9 * * *" })
		api.Expect(t)
		api.Pass(time.Hour)
		change(t, api, "c", func(cj *batchv1.CronJob) { cj.Spec.Schedule = "0 12 * * *" })
		api.Expect(t)
		api.Pass(time.Hour)
		api.Expect(t, started(day.Add(12*time.Hour))...)
		change(t, api, "c", func(cj *batchv1.CronJob) { cj.Spec.TimeZone = new("Asia/Tokyo") })
		api.Pass(14 * time.Hour)
		api.Expect(t)
		api.Pass(time.Hour + time.Minute)
		api.Expect(t, started(day.Add(27*time.Hour))...)
	})
}

func TestIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newCronJob("c", "@every 90s"))
		api.Run(t, Descriptor())
		first := time.Now()
		for i := range 4 {
			api.Pass(90 * time.Second)
			api.Settle()
			api.Expect(t, started(first.Add(time.Duration(i+1)*90*time.Second))...)
		}
	})
}

// TestSlotsThatShareAMinuteShareAJob: the names of Jobs count minutes.
func TestSlotsThatShareAMinuteShareAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newCronJob("c", "@every 20s"))
		api.Run(t, Descriptor())
		begin := time.Now()
		api.Pass(21 * time.Second)
		api.Expect(t, started(begin.Add(20*time.Second))...)
		api.Pass(20 * time.Second) // it runs
		api.Expect(t)
		finish(t, api, jobName("c", begin), batchv1.JobComplete)
		api.Pass(45 * time.Second)
		if got := jobs(t, api); !slices.Equal(got, []string{jobName("c", begin), jobName("c", begin.Add(time.Minute))}) {
			t.Errorf("jobs %v", got)
		}
	})
}

func TestFlagsAreValidated(t *testing.T) {
	if errs := (&options{workers: 0}).validate(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "--concurrent-cron-job-syncs") {
		t.Errorf("errors = %v, want one that names the flag", errs)
	}
}

func TestAStepOfTheClockIsNoticedOnce(t *testing.T) {
	for _, d := range []time.Duration{time.Hour, -time.Hour, 3 * time.Second, time.Second, 0} {
		calls := 0
		c := newClock(func() { calls++ })
		c.wall = c.wall.Add(-d) // as if the clock had been set by d since
		for range 2 {
			if _, err := c.check(klog.NewContext(t.Context(), klog.Logger{}), ""); err != nil {
				t.Fatal(err)
			}
		}
		want := 0
		if d.Abs() > clockSlack {
			want = 1
		}
		if calls != want {
			t.Errorf("a step of %s: %d calls, want %d", d, calls, want)
		}
	}
}
