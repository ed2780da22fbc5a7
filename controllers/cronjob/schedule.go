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
	// wakeDelay is added to each wake-up, for clocks that are being adjusted: a slot must be over when it is looked for.
	wakeDelay = 100 * time.Millisecond
	// lookAgain is the wake-up where the schedule itself gives none.
	lookAgain = time.Hour
	// ages is how far back slots are looked for. A CronJob can say that it last ran in the year 1, which is further back
	// than a Duration reaches.
	ages = 200 * 365 * 24 * time.Hour
	// manyMissed is the number of missed slots above which a clock or a schedule is likely to be wrong.
	manyMissed = 100
)

// errNeverFires is the verdict on schedules such as the 31st of February.
var errNeverFires = errors.New("time difference between two schedules is less than 1 second")

// namesZone reports whether the schedule itself names a time zone, which was never supported and still works.
func namesZone(cj *batchv1.CronJob) bool { return strings.Contains(cj.Spec.Schedule, "TZ") }

// zoneOf returns the time zone that the CronJob gives, and UTC if it gives none.
func zoneOf(cj *batchv1.CronJob) (*time.Location, error) {
	if cj.Spec.TimeZone == nil {
		return time.UTC, nil
	}
	return time.LoadLocation(*cj.Spec.TimeZone)
}

// parse reads the schedule of a CronJob in its time zone. Without one it is in that of the process.
func parse(cj *batchv1.CronJob) (schedule cron.Schedule, err error) {
	text := cj.Spec.Schedule
	if tz := cj.Spec.TimeZone; tz != nil && !namesZone(cj) {
		if _, err := zoneOf(cj); err == nil {
			text = "TZ=" + *tz + " " + text
		}
	}
	// The parser panics at text that ends with its time zone.
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

// begin returns the moment after which slots count: the last one that was started, or the birth of the CronJob. It is
// in the zone of the process, which is that of a schedule without one.
func begin(cj *batchv1.CronJob, status *batchv1.CronJobStatus) time.Time {
	if last := status.LastScheduleTime; last != nil {
		return last.Local()
	}
	return cj.CreationTimestamp.Local()
}

// deadline moves the beginning to the earliest moment at which a slot may have been, so as to be started now.
func deadline(cj *batchv1.CronJob, begin, now time.Time) time.Time {
	if limit := cj.Spec.StartingDeadlineSeconds; limit != nil {
		if d := now.Add(-seconds(*limit)); d.After(begin) {
			return d
		}
	}
	return begin
}

// seconds returns a number of seconds as a Duration, or the longest there is.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, kit.MostSeconds)) * time.Second
}

// dueSlots are the slots from some moment until now.
type dueSlots struct {
	latest time.Time // zero if there is none
	missed int64     // an estimate; 0 where one slot at most is due
}

// due finds the slots after a moment, now included. The slot that is picked and the estimate agree with
// kube-controller-manager's, so that both start the same Job: the first two slots give a period, by which the time
// since is divided, and the latest slot is looked for from two periods ago. Where the periods of a schedule differ, the
// look may begin in a longer pause, and then finds no slot to make up for.
func due(s cron.Schedule, after, now time.Time) (dueSlots, error) {
	if earliest := now.Add(-ages); after.Before(earliest) {
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

// latest returns the last slot after from, now included, or the zero time.
func latest(s cron.Schedule, from, now time.Time) (last time.Time) {
	if _, calendar := s.(*cron.SpecSchedule); calendar {
		from = near(s, from, now)
	}
	for t := s.Next(from); t.After(from) && !t.After(now); t = s.Next(from) {
		last, from = t, t
	}
	return last
}

// near moves from so close to the last slot that few slots lie between. It asks a few dozen times however many there
// are: every minute of one month, looked at eleven months later, is as quick as every day.
func near(s cron.Schedule, from, now time.Time) time.Time {
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

// untilNext returns how long it is to the next slot, counted from the slots after begin. It is always positive, whatever
// the schedule, the zone and the clock.
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
		return lookAgain
	}
	return next.Add(wakeDelay).Sub(now)
}
