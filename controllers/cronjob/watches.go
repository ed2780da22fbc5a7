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

// watches maps changes to the CronJobs to reconcile, and says when.
type watches struct {
	cronJobs   cache.Store[*batchv1.CronJob]
	unrecorded *unrecordedSlots
	recorder   record.EventRecorder
	later      func(kit.Key, time.Duration)
}

// atOnce accepts all changes of a CronJob except a new schedule; see rescheduled.
func (w *watches) atOnce(old, new *batchv1.CronJob) bool { return !hasNewSchedule(old, new) }

func hasNewSchedule(old, new *batchv1.CronJob) bool {
	if old == nil || new == nil || old.UID != new.UID {
		return false
	}
	return old.Spec.Schedule != new.Spec.Schedule || !equal(old.Spec.TimeZone, new.Spec.TimeZone)
}

func equal(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// rescheduled delays a CronJob with a new schedule until that schedule first fires. Moving a daily run from 2:00 to 9:00
// must not start a run at the time of the change, even though, by the new schedule, a slot has passed since the last run.
func (w *watches) rescheduled(old, new *batchv1.CronJob) []kit.Key {
	if new == nil {
		w.unrecorded.forget(kit.KeyOf(old))
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
	now := time.Now()
	if s.Next(now).IsZero() {
		return []kit.Key{kit.KeyOf(new)} // it never fires, and the reconcile says so
	}
	w.later(kit.KeyOf(new), untilNext(s, begin(new, &new.Status), now))
	return nil
}

// deleted remembers the slot of a Job that is deleted before the status of its CronJob records it. It requeues nothing: the
// deletion itself requeues the CronJob as the owner.
func (w *watches) deleted(old, new *batchv1.Job) []kit.Key {
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
		w.unrecorded.add(key, unrecordedSlot{cj.UID, slot})
	}
	return nil
}

func isLater(slot time.Time, last *metav1.Time) bool { return last == nil || slot.After(last.Time) }

// unrecordedSlots remembers slots that were run but are not in the stored status yet, so that they are not run again if
// their Jobs disappear first. That happens if the process that started a Job was killed before it recorded the slot, and
// the Job has a short time to live.
type unrecordedSlots struct {
	mu    sync.Mutex // guards slots
	slots map[kit.Key]unrecordedSlot
}

// unrecordedSlot is the latest such slot of one CronJob.
type unrecordedSlot struct {
	cronJob types.UID
	slot    time.Time
}

func newUnrecordedSlots() *unrecordedSlots {
	return &unrecordedSlots{slots: map[kit.Key]unrecordedSlot{}}
}

func (u *unrecordedSlots) add(key kit.Key, n unrecordedSlot) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if was, ok := u.slots[key]; !ok || was.cronJob != n.cronJob || was.slot.Before(n.slot) {
		u.slots[key] = n
	}
}

func (u *unrecordedSlots) forget(key kit.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.slots, key)
}

// of returns the unrecorded slot of a CronJob, if there is one.
func (u *unrecordedSlots) of(cj *batchv1.CronJob) (unrecordedSlot, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n, ok := u.slots[kit.KeyOf(cj)]
	return n, ok && n.cronJob == cj.UID
}

// recorded forgets the slot of a CronJob if the status records slots up to that one.
func (u *unrecordedSlots) recorded(cj *batchv1.CronJob, upTo *metav1.Time) {
	if n, ok := u.of(cj); ok && !isLater(n.slot, upTo) {
		u.forget(kit.KeyOf(cj))
	}
}
