package job

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// These tests begin with a status that somebody else has written.

func TestASuspendedJobThatHasNotStartedFinishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad := newJob("good", workQueue(2), suspend), newJob("bad", workQueue(2), suspend)
		good.Status.Succeeded, bad.Status.Failed = 1, 7
		api := strict(t, good, bad) // which fails the test on a status that a server refuses
		api.Run(t, Descriptor())
		settled(api)
		expect(t, api, "good", "active 0 ready 0 terminating 0 succeeded 1 failed 0"+isComplete)
		expect(t, api, "bad", "active 0 ready 0 terminating 0 succeeded 0 failed 7"+fmt.Sprintf(isFailed, batchv1.JobReasonBackoffLimitExceeded))
	})
}

func TestARunningJobThatSomebodyCallsSuspendedGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, state := range []corev1.ConditionStatus{corev1.ConditionUnknown, corev1.ConditionFalse} {
			job := newJob("j")
			began := metav1.NewTime(time.Now().Add(-time.Hour))
			job.Status.StartTime = &began
			job.Status.Conditions = []batchv1.JobCondition{condition(batchv1.JobSuspended, state, "Why", "said a user", time.Now())}
			api := strict(t, job)
			api.Run(t, Descriptor())
			settled(api)
			if s := get(t, api, "j").Status; s.Active != 1 || time.Since(s.StartTime.Time) < time.Hour {
				t.Errorf("%s: %s, started %v", state, summary(get(t, api, "j")), s.StartTime)
			}
		}
	})
}
