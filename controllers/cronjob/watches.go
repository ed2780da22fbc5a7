package cronjob

import (
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"orrery/kit"
	"orrery/kit/cache"
)

// wakeups decides when a change is looked at.
type wakeups struct {
	cronJobs cache.Store[*batchv1.CronJob]
	departed *departures
	recorder record.EventRecorder
	later    func(kit.Key, time.Duration)
}

// atOnce lets all changes of a CronJob through but a new schedule.
func (w *wakeups) atOnce(old, new *batchv1.CronJob) bool { return !hasNewSchedule(old, new) }

func hasNewSchedule(old, new *batchv1.CronJob) bool {
	if old == nil || new == nil || old.UID != new.UID {
		return false
	}
	return old.Spec.Schedule != new.Spec.Schedule || !equal(old.Spec.TimeZone, new.Spec.TimeZone)
}

func equal(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// rescheduled puts a CronJob with a new schedule off until that first fires: who moves a daily run from 2 to 9 o'clock
// does not ask for a run at the time of the change, though a slot at 9 has gone by since the last one.
func (w *wakeups) rescheduled(old, new *batchv1.CronJob) []kit.Key {
	if new == nil {
		w.departed.forget(kit.KeyOf(old))
		return nil
	}
	if !hasNewSchedule(old, new) {
		return nil
	}
	s, err := parse(new)
	if err != nil {
		w.recorder.Eventf(new, corev1.EventTypeWarning, "UnParseableCronJobSchedule", "unparseable schedule for cronjob: %s", new.Spec.Schedule)
		return nil
	}
	w.later(kit.KeyOf(new), untilNext(s, begin(new, &new.Status), time.Now()))
	return nil
}

// deleted remembers the slot of a Job that is gone before its CronJob tells that it was run. The change itself reaches
// the CronJob as that of any of its Jobs.
func (w *wakeups) deleted(old, new *batchv1.Job) []kit.Key {
	if new != nil {
		return nil
	}
	ref := metav1.GetControllerOfNoCopy(old)
	if ref == nil || ref.Kind != ownerKind.Kind {
		return nil
	}
	key := kit.Key{Namespace: old.Namespace, Name: ref.Name}
	cj, ok := w.cronJobs.Get(key)
	if !ok || cj.UID != ref.UID {
		return nil
	}
	if slot, ok := slotOf(cj.Name, old); ok && isLater(slot, cj.Status.LastScheduleTime) {
		w.departed.add(key, departure{cj.UID, slot})
	}
	return nil
}

func isLater(slot time.Time, last *metav1.Time) bool { return last == nil || slot.After(last.Time) }

// departures are the slots of Jobs that were deleted before they were recorded, as may happen to a Job that was started
// by a process which was then killed, if the Job's time to live is short.
type departures struct {
	mu    sync.Mutex // guards slots
	slots map[kit.Key]departure
}

// departure is the latest such slot of one CronJob.
type departure struct {
	cronJob types.UID
	slot    time.Time
}

func newDepartures() *departures { return &departures{slots: map[kit.Key]departure{}} }

func (d *departures) add(key kit.Key, n departure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if was, ok := d.slots[key]; !ok || was.cronJob != n.cronJob || was.slot.Before(n.slot) {
		d.slots[key] = n
	}
}

func (d *departures) forget(key kit.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.slots, key)
}

// of returns the departure of a CronJob, if there is one.
func (d *departures) of(cj *batchv1.CronJob) (departure, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.slots[kit.KeyOf(cj)]
	return n, ok && n.cronJob == cj.UID
}

// recorded forgets the departure of a CronJob unless a later slot was added since.
func (d *departures) recorded(cj *batchv1.CronJob, upTo *metav1.Time) {
	if n, ok := d.of(cj); ok && !isLater(n.slot, upTo) {
		d.forget(kit.KeyOf(cj))
	}
}
