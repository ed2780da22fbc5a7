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

// TestAnElasticJobThatIsCutDownTwiceGoesOn changes the completions and then the parallelism alone, both before the
// controller looks. The server takes no smaller count of successes then.
func TestAnElasticJobThatIsCutDownTwiceGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(6, 6), withIndexes))
		for at := 2; at < 6; at++ {
			changePod(t, api, podOf(t, api, at), exits(0))
		}
		settled(api)
		expect(t, api, "j", "active 2 ready 0 terminating 0 succeeded 4 failed 0 completed [2-5]")
		api.FreezeWatch(jobKind, true)
		edit(t, api, "j", of(3, 3))
		edit(t, api, "j", of(1, 3))
		api.FreezeWatch(jobKind, false)
		settled(api)
		expect(t, api, "j", "active 1 ready 0 terminating 0 succeeded 4 failed 0 completed [2]")
		for range 3 {
			finishAll(t, api, 0)
			settled(api)
		}
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 4 failed 0 completed [0-2]"+isComplete)
		expectEvents(t, api, "Normal Completed: Job completed")
	})
}

// TestAFailureIsNotRetriedAtOnceThoughTheClockOfItsNodeIsBehind has a node that says each pod ended before it was created.
func TestAFailureIsNotRetriedAtOnceThoughTheClockOfItsNodeIsBehind(t *testing.T) {
	for name, opts := range map[string][]jobOption{"one delay": {}, "one for each index": {withIndexes, limitEach(3)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := start(t, newJob("j", opts...))
				for _, delay := range []time.Duration{10, 20} {
					changePod(t, api, activePods(t, api)[0], func(p *corev1.Pod) {
						exits(1)(p)
						longAgo := metav1.NewTime(time.Now().Add(-time.Hour))
						p.Status.Conditions[0].LastTransitionTime = longAgo
						p.Status.ContainerStatuses[0].State.Terminated.FinishedAt = longAgo
					})
					api.Pass(delay*time.Second - 5*time.Second) // the pod may be some seconds old
					if n := len(activePods(t, api)); n != 0 {
						t.Fatalf("%d pods are active before the delay of %d s is over", n, delay)
					}
					api.Pass(6 * time.Second)
				}
			})
		})
	}
}

// TestAnExitCodeThatComesAfterTheFailureFailsTheJob has a pod that the control plane has declared failed, and a kubelet
// that reports later how it ended.
func TestAnExitCodeThatComesAfterTheFailureFailsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(2, 2), policy(on(batchv1.PodFailurePolicyActionFailJob, 42))))
		p := activePods(t, api)[0]
		changePod(t, api, p, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		api.Pass(time.Minute)
		expect(t, api, "j", "active 2 ready 0 terminating 0 succeeded 0 failed 1")
		changePod(t, api, p, exits(42))
		api.Pass(time.Minute)
		message := "Container c for pod default/" + p.Name + " failed with exit code 42 matching FailJob rule at index 0"
		if c := isTrue(get(t, api, "j"), batchv1.JobFailureTarget); c == nil || c.Message != message {
			t.Errorf("condition %+v", c)
		}
	})
}

// rescale does what a user may: the number of completions follows the parallelism, or only the parallelism changes.
func (w *world) rescale() {
	if finished(get(w.t, w.api, "j")) {
		return
	}
	n := int32(1 + w.rand.IntN(6))
	both := w.rand.IntN(2) == 0
	edit(w.t, w.api, "j", func(j *batchv1.Job) {
		j.Spec.Parallelism = &n
		if both && indexed(j) {
			j.Spec.Completions = &n
		}
	})
}

// restartContainer has a kubelet start a container again.
func (w *world) restartContainer() {
	for _, p := range activePods(w.t, w.api) {
		if len(p.Status.ContainerStatuses) > 0 {
			changePod(w.t, w.api, p, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount++ })
			return
		}
	}
}

func succeedsWith(indexes string, count int32) jobOption {
	return func(j *batchv1.Job) {
		j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: &indexes, SucceededCount: &count}}}
	}
}

// TestAJobEndsWhateverItsSpecBecomes scales, suspends and resumes Jobs through random events, late watches and kills. What
// counts then depends on when it was read, but the server takes each status, and the Job ends.
func TestAJobEndsWhateverItsSpecBecomes(t *testing.T) {
	n := of(4, 4)
	for name, opts := range map[string][]jobOption{
		"plain":          {n, limit(1000)},
		"queue":          {workQueue(3), limit(1000)},
		"indexed":        {n, withIndexes, limit(1000)},
		"per index":      {n, withIndexes, limitEach(2)},
		"few lost":       {n, withIndexes, limitEach(1), func(j *batchv1.Job) { j.Spec.MaxFailedIndexes = new(int32(1)) }},
		"success policy": {n, withIndexes, limit(1000), succeedsWith("0-2", 2)},
		"fail index":     {n, withIndexes, limitEach(3), policy(on(batchv1.PodFailurePolicyActionFailIndex, 1))},
		"hurried":        {n, limit(1000), func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = new(int64(20)) }},
		"restarting": {n, limit(5), func(j *batchv1.Job) {
			j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		}},
	} {
		for seed := range uint64(*ordeals) {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, seed, newJob("j", opts...))
					w.loose = true
					w.process.Start(w.rand.IntN(12))
					for range 60 {
						switch w.rand.IntN(10) {
						case 0:
							w.lag()
						case 1:
							if !finished(get(t, w.api, "j")) {
								edit(t, w.api, "j", func(j *batchv1.Job) { j.Spec.Suspend = new(w.rand.IntN(3) == 0) })
							}
						case 2, 3:
							w.rescale()
						case 4:
							w.restartContainer()
						default:
							w.live(25)
						}
						w.api.Pass(time.Duration(w.rand.IntN(800)) * time.Millisecond)
						if w.process.Killed() || w.rand.IntN(20) == 0 {
							w.process.Restart(w.rand.IntN(12))
						}
					}
					edit(t, w.api, "j", func(j *batchv1.Job) { j.Spec.Suspend = new(false) })
					w.finish()
				})
			})
		}
	}
}
