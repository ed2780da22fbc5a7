package cronjob

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"

	"orrery/kit"
)

const (
	// wakeDelay is added to each requeue, in case the clock is being adjusted: the slot must have passed by then.
	wakeDelay = 100 * time.Millisecond
	// fallbackDelay is the requeue delay if the schedule has no next slot.
	fallbackDelay = time.Hour
	// maxLookback is how far back slots are searched. The status of a CronJob can say that it last ran in the year 1, which
	// is further back than a Duration reaches.
	maxLookback = 200 * 365 * 24 * time.Hour
	// manyMissed is the number of missed slots above which the clock or the schedule is likely to be wrong.
	manyMissed = 100
)

// errNeverFires is returned for schedules such as the 31st of February.
var errNeverFires = errors.New("time difference between two schedules is less than 1 second")

// namesZone reports whether the schedule itself names a time zone, which is not officially supported but works.
func namesZone(cj *batchv1.CronJob) bool { return strings.Contains(cj.Spec.Schedule, "TZ") }

// zoneOf returns the time zone in the spec of the CronJob, or UTC if there is none.
func zoneOf(cj *batchv1.CronJob) (*time.Location, error) {
	if cj.Spec.TimeZone == nil {
		return time.UTC, nil
	}
	return time.LoadLocation(*cj.Spec.TimeZone)
}

// parse parses the schedule of a CronJob in its time zone, or in that of the process if it has none.
func parse(cj *batchv1.CronJob) (schedule cron.Schedule, err error) {
	text := cj.Spec.Schedule
	if tz := cj.Spec.TimeZone; tz != nil && !namesZone(cj) {
		if _, err := zoneOf(cj); err == nil {
			text = "TZ=" + *tz + " " + text
		}
	}
	// The parser panics if the text consists of nothing but the time zone.
	err = kit.Guard(func() error {
		var err error
		schedule, err = cron.ParseStandard(text)
		return err
	})
	if p, ok := errors.AsType[*kit.PanicError](err); ok {
		return nil, fmt.Errorf("invalid schedule format: %v", p.Value)
	}
	return schedule, err
}

// begin returns the time after which slots count: the last one that was started, or the creation of the CronJob. It is in
// the time zone of the process, which applies to schedules without one.
func begin(cj *batchv1.CronJob, status *batchv1.CronJobStatus) time.Time {
	if last := status.LastScheduleTime; last != nil {
		return last.Local()
	}
	return cj.CreationTimestamp.Local()
}

// deadline moves begin forward so that slots which are past their starting deadline are left out.
func deadline(cj *batchv1.CronJob, begin, now time.Time) time.Time {
	if limit := cj.Spec.StartingDeadlineSeconds; limit != nil {
		if d := now.Add(-seconds(*limit)); d.After(begin) {
			return d
		}
	}
	return begin
}

// seconds returns n seconds as a Duration, capped at the longest one.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, kit.MaxSeconds)) * time.Second
}

// dueSlots are the slots from some time until now.
type dueSlots struct {
	latest time.Time // zero if there is none
	missed int64     // an estimate; 0 if at most one slot is due
}

// due finds the slots after a time, up to and including now. The latest slot and the estimate must be the same as
// kube-controller-manager's, so that both start the same Job. The distance of the first two slots is taken for the period
// of the schedule. It gives the number of missed slots, and the latest one is searched from two periods before now. If the
// slots are unevenly spaced, the search may begin after the latest one, and then finds none.
func due(s cron.Schedule, after, now time.Time) (dueSlots, error) {
	if earliest := now.Add(-maxLookback); after.Before(earliest) {
		after = earliest
	}
	first := s.Next(after)
	switch {
	case first.IsZero():
		return dueSlots{}, errNeverFires
	case first.After(now):
		return dueSlots{}, nil
	}
	second := s.Next(first)
	if second.After(now) || second.IsZero() {
		return dueSlots{latest: first}, nil
	}
	period := second.Sub(first).Round(time.Second)
	if period < time.Second {
		return dueSlots{}, errNeverFires
	}
	missed := int64(now.Sub(first).Seconds())/int64(period.Seconds()) + 1
	return dueSlots{missed: missed, latest: latest(s, first.Add(time.Duration(missed-2)*period), now)}, nil
}

// latest returns the last slot after from, up to and including now, or the zero time.
func latest(s cron.Schedule, from, now time.Time) (last time.Time) {
	if _, calendar := s.(*cron.SpecSchedule); calendar {
		from = skipAhead(s, from, now)
	}
	for t := s.Next(from); t.After(from) && !t.After(now); t = s.Next(from) {
		last, from = t, t
	}
	return last
}

// skipAhead moves from so close to the last slot that few slots lie between. It evaluates the schedule a few dozen times,
// however many slots there are: a schedule that fires every minute of one month costs no more, eleven months later, than
// one that fires daily.
func skipAhead(s cron.Schedule, from, now time.Time) time.Time {
	fires := func(after time.Time) bool {
		t := s.Next(after)
		return !t.IsZero() && !t.After(now)
	}
	const fine = time.Minute
	quiet, step := now, fine // nothing fires after quiet
	begin := now.Add(-step)
	for begin.After(from) && !fires(begin) {
		quiet, step = begin, 2*step
		begin = now.Add(-step)
	}
	if begin.Before(from) {
		begin = from
	}
	for quiet.Sub(begin) > fine {
		if mid := begin.Add(quiet.Sub(begin) / 2); fires(mid) {
			begin = mid
		} else {
			quiet = mid
		}
	}
	return begin
}

// untilNext returns the time until the next slot, given that slots count from begin. It is always positive, whatever the
// schedule, the time zone and the clock.
func untilNext(s cron.Schedule, begin, now time.Time) time.Duration {
	from := now
	switch slots, err := due(s, begin, now); {
	case err != nil:
	case !slots.latest.IsZero():
		from = slots.latest
	case slots.missed == 0:
		from = begin
	}
	next := s.Next(from)
	if !next.After(now) {
		next = s.Next(now)
	}
	if !next.After(now) {
		return fallbackDelay
	}
	return next.Add(wakeDelay).Sub(now)
}
