package cronjob

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func at(t testing.TB, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func scheduleIn(t testing.TB, text, zone string) cron.Schedule {
	t.Helper()
	cj := &batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: text}}
	if zone != "" {
		cj.Spec.TimeZone = &zone
	}
	s, err := parse(cj)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSchedulesThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "empty spec string",
		"* * * *":                 "expected exactly 5 fields",
		"61 * * * *":              "above maximum",
		"TZ=0":                    "invalid schedule format: ",
		"CRON_TZ=UTC":             "invalid schedule format: ",
		"TZ=Nowhere/At 0 0 * * *": "provided bad location Nowhere/At",
		"@sometimes":              "unrecognized descriptor",
		"@every 5":                "failed to parse duration",
	} {
		if _, err := parse(&batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: text}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestDueSlots(t *testing.T) {
	for _, tc := range []struct {
		name, schedule, after, now, latest string
		missed                             int64
	}{
		{"none yet", "0 * * * *", "2026-01-05T09:30:00Z", "2026-01-05T09:59:59Z", "", 0},
		{"the moment it fires", "0 * * * *", "2026-01-05T09:30:00Z", "2026-01-05T10:00:00Z", "2026-01-05T10:00:00Z", 0},
		{"one", "0 * * * *", "2026-01-05T09:30:00Z", "2026-01-05T10:59:59Z", "2026-01-05T10:00:00Z", 0},
		{"two", "0 * * * *", "2026-01-05T09:30:00Z", "2026-01-05T11:00:00Z", "2026-01-05T11:00:00Z", 2},
		{"the last of many", "0 * * * *", "2026-01-01T00:00:00Z", "2026-02-01T00:30:00Z", "2026-02-01T00:00:00Z", 744},
		{"a clock that was set back", "0 * * * *", "2026-01-05T10:00:00Z", "2026-01-05T07:30:00Z", "", 0},
		{"a descriptor", "@daily", "2026-01-01T12:00:00Z", "2026-01-09T00:00:01Z", "2026-01-09T00:00:00Z", 8},
		{"an interval counts from the last start", "@every 1h", "2026-01-05T09:30:17Z", "2026-01-05T12:31:00Z", "2026-01-05T12:30:17Z", 3},
		{"an interval of odd length", "@every 7m13s", "2026-01-05T09:00:00Z", "2026-01-05T09:15:00Z", "2026-01-05T09:14:26Z", 2},
		{"uneven periods", "30 6-16/4 * * 1-5", "2026-01-05T14:30:00Z", "2026-01-06T12:00:00Z", "2026-01-06T10:30:00Z", 2},
		{"uneven periods, in the longer pause", "30 6-16/4 * * 1-5", "2026-01-09T06:30:00Z", "2026-01-11T20:00:00Z", "", 15},
		{"a leap day that is far", "0 0 29 2 *", "2092-03-01T00:00:00Z", "2096-03-01T00:00:00Z", "2096-02-29T00:00:00Z", 0},
	} {
		got, err := due(scheduleIn(t, tc.schedule, "UTC"), at(t, tc.after), at(t, tc.now))
		want := dueSlots{missed: tc.missed}
		if tc.latest != "" {
			want.latest = at(t, tc.latest)
		}
		if err != nil || !got.latest.Equal(want.latest) || got.missed != want.missed {
			t.Errorf("%s: %v, %v; want %v", tc.name, got, err, want)
		}
	}
	never := scheduleIn(t, "59 23 31 2 *", "")
	if _, err := due(never, at(t, "2026-01-01T00:00:00Z"), at(t, "2026-01-02T00:00:00Z")); !errors.Is(err, errNeverFires) {
		t.Errorf("the 31st of February: %v", err)
	}
	if d := untilNext(never, at(t, "2026-01-01T00:00:00Z"), at(t, "2026-01-02T00:00:00Z")); d != fallbackDelay {
		t.Errorf("the 31st of February is awaited for %s", d)
	}
}

// TestAnAncientStartIsLookedAtQuickly has a last run that is further back than a Duration reaches.
func TestAnAncientStartIsLookedAtQuickly(t *testing.T) {
	now := at(t, "2026-01-05T09:30:00.5Z")
	for text, want := range map[string]string{"@every 1s": "2026-01-05T09:30:00Z", "* * * * *": "2026-01-05T09:30:00Z", "0 0 1 1 *": "2026-01-01T00:00:00Z"} {
		begin, s := time.Now(), scheduleIn(t, text, "UTC")
		got, err := due(s, time.Time{}, now)
		if err != nil || !got.latest.Equal(at(t, want)) || got.missed < 199 {
			t.Errorf("%s: %v, %v; want %s", text, got, err, want)
		}
		if d := untilNext(s, time.Time{}, now); d <= 0 || d > 366*24*time.Hour {
			t.Errorf("%s: the next look is in %s", text, d)
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("%s: took %s", text, took)
		}
	}
}

// counted is a schedule that counts how often it is evaluated.
type counted struct {
	*cron.SpecSchedule
	asked int
}

// TestALongPauseCostsFewQuestions has schedules with many slots in some months, the last of which is long ago.
func TestALongPauseCostsFewQuestions(t *testing.T) {
	inner := scheduleIn(t, "* * * 1 *", "UTC").(*cron.SpecSchedule)
	c := &counted{SpecSchedule: inner}
	now := at(t, "2026-12-24T10:11:12Z")
	from := skipAhead(questions{c}, at(t, "2015-01-01T00:00:00Z"), now)
	if last := at(t, "2026-01-31T23:59:00Z"); inner.Next(from).After(last) || last.Sub(inner.Next(from)) > time.Minute {
		t.Errorf("the look begins at %s, want just before %s", from, last)
	}
	if c.asked > 100 {
		t.Errorf("asked %d times", c.asked)
	}
}

type questions struct{ c *counted }

func (q questions) Next(t time.Time) time.Time {
	q.c.asked++
	return q.c.SpecSchedule.Next(t)
}

// plainLatest finds the latest slot by trying one after the other.
func plainLatest(s cron.Schedule, from, now time.Time) (last time.Time) {
	for t := s.Next(from); t.After(from) && !t.After(now); t = s.Next(t) {
		last, from = t, t
	}
	return last
}

var zones = []string{
	"", "UTC", "Europe/Berlin", "America/Los_Angeles", "America/Sao_Paulo", "America/Santiago", "America/Havana", "Asia/Beirut",
	"Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "Australia/Sydney", "Pacific/Apia", "Africa/Casablanca", "Asia/Tehran",
}

// field returns a random field of a schedule.
func field(r *rand.Rand, low, high int) string {
	n := func() int { return low + r.IntN(high-low+1) }
	switch r.IntN(6) {
	case 0, 1:
		return "*"
	case 2:
		return fmt.Sprintf("*/%d", 1+r.IntN(high-low+1))
	case 3:
		a, b := n(), n()
		return fmt.Sprintf("%d-%d/%d", min(a, b), max(a, b), 1+r.IntN(5))
	case 4:
		return fmt.Sprintf("%d,%d", n(), n())
	}
	return fmt.Sprint(n())
}

func anySchedule(r *rand.Rand) string {
	if r.IntN(6) == 0 {
		return []string{"@hourly", "@daily", "@weekly", "@monthly", "@yearly", "@every 1s", "@every 90s", "@every 1h1m1s", "@every 40h"}[r.IntN(9)]
	}
	return strings.Join([]string{field(r, 0, 59), field(r, 0, 23), field(r, 1, 31), field(r, 1, 12), field(r, 0, 6)}, " ")
}

// TestTheNextWakeUpIsInTheFuture tries random schedules, time zones and times, half of the times near a daylight saving
// change. The last run is before, at or, as if the clock had been set back, after that time.
func TestTheNextWakeUpIsInTheFuture(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 26))
	for range 20000 {
		schedule, zone := anySchedule(r), zones[r.IntN(len(zones))]
		s := scheduleIn(t, schedule, zone)
		now := at(t, "2015-01-01T00:00:00Z").Add(time.Duration(r.Int64N(int64(15 * 365 * 24 * time.Hour))))
		if loc, err := time.LoadLocation(zone); err == nil && r.IntN(2) == 0 {
			if _, end := now.In(loc).ZoneBounds(); !end.IsZero() {
				now = end.Add(time.Duration(r.Int64N(int64(6*time.Hour))) - 3*time.Hour)
			}
		}
		span := []time.Duration{time.Minute, time.Hour, 24 * time.Hour, 400 * 24 * time.Hour}[r.IntN(4)]
		last := now.Add(span/8 - time.Duration(r.Int64N(int64(span)))).Truncate(time.Second)
		checkWakeUp(t, s, fmt.Sprintf("%q in %q, last %s, now %s", schedule, zone, last, now), last, now)
	}
}

func checkWakeUp(t *testing.T, s cron.Schedule, what string, last, now time.Time) {
	d := untilNext(s, last, now)
	if d <= 0 {
		t.Fatalf("%s: the next wake-up is in %s", what, d)
	}
	slots, err := due(s, last, now)
	switch {
	case err != nil:
		return
	case !slots.latest.IsZero() && (!slots.latest.After(last) || slots.latest.After(now)):
		t.Fatalf("%s: the slot %s is not between", what, slots.latest)
	}
	if first := s.Next(last); slots.missed > 0 && slots.missed < 5000 {
		period := s.Next(first).Sub(first).Round(time.Second)
		if want := plainLatest(s, first.Add(time.Duration(slots.missed-2)*period), now); !want.Equal(slots.latest) {
			t.Fatalf("%s: the latest slot is %s, want %s", what, slots.latest, want)
		}
	}
	// The schedule does not fire before the requeue, if the clock is not set.
	base := last
	if !slots.latest.IsZero() {
		base = slots.latest
	}
	if after, err := due(s, base, now.Add(d-wakeDelay-time.Nanosecond)); err == nil && d != fallbackDelay && slots.missed == 0 && !after.latest.IsZero() {
		t.Fatalf("%s: a wake-up in %s is late for %s", what, d, after.latest)
	}
}

func FuzzTheNextWakeUp(f *testing.F) {
	f.Add("*/5 * * * *", "Europe/Berlin", int64(1792890000), int64(3600))
	f.Add("@every 2s", "", int64(1792890000), int64(-7200))
	f.Add("30 6-16/4 * * 1-5", "America/Sao_Paulo", int64(1540000000), int64(1e9))
	f.Add("0 0 29 2 *", "Pacific/Apia", int64(4000000000), int64(86400))
	f.Fuzz(func(t *testing.T, schedule, zone string, unix, since int64) {
		if len(schedule) > 100 || unix < 0 || unix > 1<<36 || since > 1<<36 || since < -1<<36 {
			return
		}
		s, err := parse(&batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: schedule, TimeZone: &zone}})
		if err != nil {
			return
		}
		now := time.Unix(unix, 0)
		if d := untilNext(s, now.Add(-time.Duration(since)*time.Second), now); d <= 0 {
			t.Errorf("the next wake-up is in %s", d)
		}
	})
}

// starts simulates a CronJob from one time to another and returns when it starts Jobs.
func starts(t *testing.T, schedule, zone, from, to string) (out []string) {
	t.Helper()
	s := scheduleIn(t, schedule, zone)
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at(t, from))}}
	wakeUps := 0
	for now := at(t, from); now.Before(at(t, to)); wakeUps++ {
		slots, err := due(s, begin(cj, &cj.Status), now)
		if err != nil {
			t.Fatal(err)
		}
		if !slots.latest.IsZero() {
			cj.Status.LastScheduleTime = &metav1.Time{Time: slots.latest}
			out = append(out, slots.latest.UTC().Format("01-02T15:04"))
		}
		now = now.Add(untilNext(s, begin(cj, &cj.Status), now))
	}
	if wakeUps > len(out)+2 {
		t.Errorf("%q: %d wake-ups for %d starts", schedule, wakeUps, len(out))
	}
	return out
}
