package ttlafterfinished

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

// job returns a Job that finished at that time; a zero time is that of a Job that runs.
func job(name string, ttl int32, finished time.Time) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if ttl >= 0 {
		j.Spec.TTLSecondsAfterFinished = &ttl
	}
	if !finished.IsZero() {
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(finished)}}
	}
	return j
}

func TestExpiry(t *testing.T) {
	at := time.Unix(1000, 0)
	failed, suspended, going := job("j", 5, at), job("j", 5, at), job("j", 5, at)
	failed.Status.Conditions[0].Type = batchv1.JobFailed
	suspended.Status.Conditions[0].Type = batchv1.JobSuspended
	now := metav1.Now()
	going.DeletionTimestamp = &now
	undated, untrue := job("j", 5, at), job("j", 5, at)
	undated.Status.Conditions[0].LastTransitionTime = metav1.Time{}
	untrue.Status.Conditions[0].Status = corev1.ConditionFalse
	for _, tc := range []struct {
		name string
		job  *batchv1.Job
		ok   bool
	}{
		{"complete", job("j", 5, at), true},
		{"failed", failed, true},
		{"running", job("j", 5, time.Time{}), false},
		{"without a TTL", job("j", -1, at), false},
		{"suspended", suspended, false},
		{"being deleted", going, false},
		{"of unknown time", undated, false},
		{"not complete", untrue, false},
	} {
		got, ok := expiry(tc.job)
		if ok != tc.ok || ok && !got.Equal(at.Add(5*time.Second)) {
			t.Errorf("%s: expires %s, %t; want %t", tc.name, got, ok, tc.ok)
		}
	}
}

func TestFinishedJobsGoWhenTheirTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, job("zero", 0, time.Now()), job("soon", 30, time.Now()), job("runs", 0, time.Time{}), job("keeps", -1, time.Now()))
		api.Run(t, Descriptor())
		api.Settle()
		api.Expect(t, "delete batch/v1/jobs default/zero")
		if j := job("zero", 0, time.Time{}); !api.Get(t, j) || !slices.Contains(j.Finalizers, metav1.FinalizerDeleteDependents) {
			t.Errorf("zero has finalizers %v, want a deletion in the foreground", j.Finalizers)
		}
		api.Pass(28 * time.Second)
		api.Expect(t)
		api.Pass(2 * time.Second)
		api.Expect(t, "delete batch/v1/jobs default/soon")
		finished := job("runs", 0, time.Now())
		api.Update(t, finished)
		api.Settle()
		api.Expect(t, "delete batch/v1/jobs default/runs")
	})
}

// TestARaisedTTLIsHonoured: there was a bug by which Jobs were deleted because of a stale cache.
func TestARaisedTTLIsHonoured(t *testing.T) {
	for _, tc := range []struct {
		name   string
		frozen bool
	}{{"as the cache shows", false}, {"though the cache is behind", true}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				api := kittest.New(t, job("j", 5, start))
				api.Run(t, Descriptor())
				api.Pass(4 * time.Second)
				api.FreezeWatch(batchv1.SchemeGroupVersion.WithKind("Job"), tc.frozen)
				raised := job("j", 3600, start)
				api.Update(t, raised)
				api.Pass(time.Minute)
				api.Expect(t)
				api.FreezeWatch(batchv1.SchemeGroupVersion.WithKind("Job"), false)
				api.Pass(time.Hour)
				api.Expect(t, "delete batch/v1/jobs default/j")
			})
		})
	}
}

// TestANewJobOfTheSameNameStays is about the same bug.
func TestANewJobOfTheSameNameStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := job("j", 5, time.Now())
		api := kittest.New(t, old)
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "delete" { // between the controller's read and its delete
				api.Unreact()
				api.Remove(t, old)
				api.Create(t, job("j", 3600, time.Now()))
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Pass(5 * time.Second)
		api.Settle()
		api.Expect(t)
		if j := job("j", 0, time.Time{}); !api.Get(t, j) || j.DeletionTimestamp != nil || j.UID == old.UID {
			t.Error("the new Job was hit by the deletion of the old one")
		}
		// The cache shows the old Job for a while, but the server has a new one.
		fresh := job("j", 3600, time.Now())
		api.Get(t, fresh)
		api.Remove(t, fresh)
		api.Create(t, job("j", 5, time.Now()))
		api.Settle()
		api.FreezeWatch(batchv1.SchemeGroupVersion.WithKind("Job"), true)
		api.Remove(t, job("j", 0, time.Time{}))
		api.Create(t, job("j", -1, time.Now()))
		api.Pass(time.Minute)
		api.Expect(t)
	})
}

// TestAFinishInTheFutureDefersTheDeletion is about clock skew.
func TestAFinishInTheFutureDefersTheDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, job("j", 5, time.Now().Add(time.Hour)))
		api.Run(t, Descriptor())
		api.Pass(time.Hour)
		api.Expect(t)
		api.Pass(6 * time.Second)
		api.Expect(t, "delete batch/v1/jobs default/j")
	})
}

func TestAFailedDeleteIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, job("j", 0, time.Now()))
		left := 3
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "delete" && left > 0 {
				left--
				return kittest.Refuse(500, "no")
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Pass(3 * time.Minute) // after each 500 the kit waits whether the delete was carried out all the same
		api.Expect(t, "delete batch/v1/jobs default/j")
	})
}

func TestFlagsAreValidated(t *testing.T) {
	if errs := (&options{workers: 0}).validate(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "--concurrent-ttl-after-finished-syncs") {
		t.Errorf("errors = %v, want one that names the flag", errs)
	}
}
