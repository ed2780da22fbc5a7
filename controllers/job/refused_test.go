package job

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"orrery/kit/kittest"
)

// refusals are the times at which a quota refused a pod.
type refusals struct {
	mu sync.Mutex // guards at
	at []time.Time
}

// take returns the refusals since the last call.
func (r *refusals) take() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.at
	r.at = nil
	return at
}

// full refuses pods where there are some already, as a quota does.
func full(t *testing.T, api *kittest.API, room int) *refusals {
	t.Helper()
	refused := &refusals{}
	api.React(func(r *kittest.Request) *kittest.Reaction {
		if r.Verb == "create" && r.Resource.Resource == "pods" && len(allPods(t, api)) >= room {
			refused.mu.Lock()
			defer refused.mu.Unlock()
			refused.at = append(refused.at, time.Now())
			return kittest.Refuse(http.StatusForbidden, "exceeded quota")
		}
		return nil
	})
	return refused
}

func TestAFullQuotaIsAskedAgainLaterAndLater(t *testing.T) {
	for name, opts := range map[string][]jobOption{
		"plain": {of(10, 10)}, "indexed": {of(10, 10), withIndexes}, "more than one burst": {of(1200, 1200)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := strict(t, newJob("j", opts...))
				refused := full(t, api, 1)
				began := time.Now()
				api.Run(t, Descriptor())
				api.Pass(62 * time.Second)
				// The first try asks for two more at once, each further one for a single pod.
				var tries []time.Duration
				for _, at := range refused.take()[1:] {
					tries = append(tries, at.Sub(began).Round(time.Second))
				}
				if len(tries) < 5 || len(tries) > 7 {
					t.Errorf("refused after %v", tries)
				}
			})
		})
	}
}

func TestAFullQuotaIsAskedOnceASecondWhilePodsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := strict(t, newJob("j", of(1200, 1200)))
		refused := full(t, api, 20)
		api.Run(t, Descriptor())
		api.Pass(5 * time.Second)
		refused.take()
		for i, pods := 0, activePods(t, api); i < 100; i++ {
			changePod(t, api, pods[i%len(pods)], func(p *corev1.Pod) {
				runs(p)
				if i/len(pods)%2 == 1 {
					p.Status.Conditions[0].Status = corev1.ConditionFalse
				}
			})
			api.Pass(200 * time.Millisecond)
		}
		if n := len(refused.take()); n > 22 {
			t.Errorf("%d creates in 20 seconds", n)
		}
	})
}

func TestWhatAJobsOwnPodsFreeIsUsedWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := strict(t, newJob("j", of(10, 10)))
		full(t, api, 3)
		api.Run(t, Descriptor())
		api.Pass(100 * time.Second)
		for _, p := range activePods(t, api) {
			changePod(t, api, p, exits(0))
		}
		for _, p := range allPods(t, api) {
			api.Delete(t, p)
		}
		api.Pass(2 * time.Second)
		expect(t, api, "j", "active 3 ready 0 terminating 0 succeeded 3 failed 0")
		if n := len(activePods(t, api)); n != 3 {
			t.Errorf("%d active pods", n)
		}
	})
}

func TestAUsersChangeIsTriedAtOnceDespiteARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := strict(t, newJob("j", of(3, 10)))
		refused := full(t, api, 1)
		api.Run(t, Descriptor())
		api.Pass(100 * time.Second)
		refused.take()
		edit(t, api, "j", of(2, 10))
		api.Pass(10 * time.Millisecond)
		if n := len(refused.take()); n != 1 {
			t.Errorf("%d creates", n)
		}
	})
}

func TestPodsThatAWebhookTakesAwayAreMadeAnewOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := strict(t, newJob("j", of(5, 5)))
		var made atomic.Int32
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" && r.Resource.Resource == "pods" {
				made.Add(1)
				r.Object.SetLabels(map[string]string{"job-name": "j"})
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Pass(10 * time.Second)
		if n := made.Load(); n < 40 || n > 60 {
			t.Errorf("%d pods in 10 s", n)
		}
		api.Unreact()
		settled(api)
		expect(t, api, "j", "active 5 ready 0 terminating 0 succeeded 0 failed 0")
	})
}

// TestTheDeadlineIsKeptWhilePodsAreRefused tries again once a minute when the deadline comes.
func TestTheDeadlineIsKeptWhilePodsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := strict(t, newJob("j", of(2, 2), func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = new(int64(150)) }))
		refused := full(t, api, 1)
		api.Run(t, Descriptor())
		api.Pass(149 * time.Second)
		expect(t, api, "j", "active 1 ready 0 terminating 0 succeeded 0 failed 0")
		api.Pass(2 * time.Second)
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 0 failed 1"+fmt.Sprintf(isFailed, "DeadlineExceeded"))
		if n := len(refused.take()); n > 12 {
			t.Errorf("pods were refused %d times", n)
		}
	})
}

// TestAPodWhoseEndTheCacheShowsLateFailsOnce: the finalizer is the last thing that keeps a deleted pod, and the answer to the
// patch that takes it off has no newer version than the cache may have.
func TestAPodWhoseEndTheCacheShowsLateFailsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := strict(t, newJob("j", of(1, 1), func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = new(int64(10)) }))
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "patch" && r.Resource.Resource == "pods" {
				api.FreezeWatch(podKind, true)
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Pass(40 * time.Second) // nobody runs the pod, so it goes at once
		api.FreezeWatch(podKind, false)
		api.Pass(10 * time.Second)
		if s := get(t, api, "j").Status; s.Failed != 1 || len(allPods(t, api)) != 0 {
			t.Errorf("%d failed, %d pods left", s.Failed, len(allPods(t, api)))
		}
	})
}
