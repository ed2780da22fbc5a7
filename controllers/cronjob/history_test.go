package cronjob

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit"
	"orrery/kit/kittest"
)

func key(name string) kit.Key { return kit.Key{Namespace: "default", Name: name} }

func TestTheHistoryKeepsTheJobsThatStartedLast(t *testing.T) {
	base := time.Unix(10000, 0)
	var all []*batchv1.Job
	for i, started := range []int{3, 1, -1, 2, 2} {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("j%d", i)}}
		end(j, batchv1.JobComplete, base.Add(time.Duration(started)*time.Minute))
		if started < 0 {
			j.Status.StartTime = nil
		}
		all = append(all, j)
	}
	running, failed := &batchv1.Job{}, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "failed"}}
	end(failed, batchv1.JobFailed, base)
	all = append(all, running, failed)
	for limit, want := range map[int32][]string{0: {"j1", "j3", "j4", "j0", "j2"}, 2: {"j1", "j3", "j4"}, 5: nil, 9: nil} {
		var got []string
		for _, j := range excess(all, batchv1.JobComplete, &limit) {
			got = append(got, j.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: deletes %v, want %v", limit, got, want)
		}
	}
	if got := excess(all, batchv1.JobFailed, nil); got != nil {
		t.Errorf("no limit: deletes %v", got)
	}
}

func TestOldJobsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newCronJob("c", "* * * * *", history(2, 0)))
		api.Run(t, Descriptor())
		first := time.Now().Add(time.Minute)
		for i := range 4 {
			api.Pass(time.Minute)
			api.Settle()
			finish(t, api, jobName("c", first.Add(time.Duration(i)*time.Minute)), batchv1.JobComplete)
		}
		if got, want := jobs(t, api), []string{jobName("c", first.Add(2*time.Minute)), jobName("c", first.Add(3*time.Minute))}; !slices.Equal(got, want) {
			t.Errorf("jobs %v, want %v", got, want)
		}
		n := len(api.Events())
		api.Pass(time.Minute)
		api.Settle()
		failed := jobName("c", first.Add(4*time.Minute))
		finish(t, api, failed, batchv1.JobFailed)
		if slices.Contains(jobs(t, api), failed) {
			t.Error("the failed Job was kept")
		}
		if got, want := told(api, n+1), []string{"Normal SuccessfulDelete: Deleted job " + failed}; !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}

// TestAJobStartedByHandTellsOfItsSuccess has a Job as created by "kubectl create job --from".
func TestAJobStartedByHandTellsOfItsSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newCronJob("c", "0 0 1 1 *"))
		api.Run(t, Descriptor())
		api.Settle()
		manual := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "by-hand", Annotations: map[string]string{"cronjob.kubernetes.io/instantiate": "manual"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(read(t, api, "c"), ownerKind)},
		}}
		api.Create(t, manual)
		api.Pass(time.Minute)
		finish(t, api, "by-hand", batchv1.JobComplete)
		s := read(t, api, "c").Status
		if at := jobOf(t, api, "by-hand").Status.CompletionTime; s.LastSuccessfulTime == nil || !s.LastSuccessfulTime.Equal(at) {
			t.Errorf("last success at %v, the Job's at %v", s.LastSuccessfulTime, at)
		}
		if s.LastScheduleTime != nil || len(s.Active) != 0 {
			t.Errorf("it counts as one of the schedule: %+v", s)
		}
	})
}

// TestADeletionThatFailsHoldsNoSlotUp rejects deletions, as a webhook may.
func TestADeletionThatFailsHoldsNoSlotUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newCronJob("c", "*/10 * * * *", history(0, 0)))
		api.Run(t, Descriptor())
		slot := time.Now().Add(10 * time.Minute)
		tries := 0
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb != "delete" {
				return nil
			}
			tries++
			return kittest.Refuse(403, "no")
		})
		api.Pass(10*time.Minute + time.Second)
		finish(t, api, jobName("c", slot), batchv1.JobComplete)
		api.TakeWrites()
		api.Pass(time.Until(slot.Add(10*time.Minute + time.Second)))
		api.Expect(t, started(slot.Add(10*time.Minute))...)
		if tries < 5 || tries > 15 {
			t.Errorf("%d tries in ten minutes", tries)
		}
		api.Unreact()
		api.Pass(2 * time.Minute)
		api.Expect(t, "delete batch/v1/jobs default/"+jobName("c", slot))
	})
}

// TestAJobThatIsGoingIsNotDeletedAgain has a Job that is kept by a finalizer.
func TestAJobThatIsGoingIsNotDeletedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cj := newCronJob("c", "0 0 1 1 *", history(0, 0))
		api := kittest.New(t, cj)
		j := newJob(cj, time.Now(), time.UTC)
		j.Finalizers = []string{"keep/it"}
		end(j, batchv1.JobComplete, time.Now())
		api.Create(t, j)
		api.Run(t, Descriptor())
		api.Settle()
		api.Expect(t, "delete batch/v1/jobs default/"+j.Name, "update batch/v1/cronjobs/status default/c")
		for range 3 {
			j = jobOf(t, api, j.Name)
			j.Labels = map[string]string{"at": time.Now().String()}
			api.Update(t, j)
			api.Pass(time.Minute)
		}
		api.Expect(t)
	})
}

func TestACreationThatFailsIsToldAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newCronJob("c", "*/10 * * * *"))
		api.Run(t, Descriptor())
		slot := time.Now().Add(10 * time.Minute)
		left := 2
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb != "create" || left == 0 {
				return nil
			}
			left--
			return kittest.Refuse(403, "exceeded quota")
		})
		api.Pass(11 * time.Minute)
		api.Expect(t, started(slot)...)
		want := "Warning FailedCreate: Error creating job: exceeded quota"
		if got := told(api, 0); len(got) != 3 || got[0] != want || got[1] != want {
			t.Errorf("events %q", got)
		}
	})
}
