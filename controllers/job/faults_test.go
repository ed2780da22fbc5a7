package job

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"orrery/kit/kittest"
)

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, each pod is created once and counted once.
func TestFaultsAtEachWrite(t *testing.T) {
	given := func(opts ...jobOption) func(*testing.T, *kittest.API) {
		return func(t *testing.T, api *kittest.API) {
			api.Create(t, newJob("j", opts...))
			api.React(refuseBadStatus(t, api))
		}
	}
	to := func(opts ...jobOption) func(*testing.T, *kittest.API) {
		return func(t *testing.T, api *kittest.API) {
			job := get(t, api, "j")
			for _, o := range opts {
				o(job)
			}
			job.Generation++
			api.Update(t, job)
		}
	}
	succeed := func(*corev1.Pod) corev1.PodPhase { return corev1.PodSucceeded }
	fail := func(*corev1.Pod) corev1.PodPhase { return corev1.PodFailed }
	never := func(*corev1.Pod) corev1.PodPhase { return "" }
	resume := func(j *batchv1.Job) { j.Spec.Suspend = new(false) }
	for name, c := range map[string]struct {
		kittest.FaultTest
		ends func(*corev1.Pod) corev1.PodPhase
	}{
		"completing": {kittest.FaultTest{Given: given(of(2, 3))}, succeed},
		"indexed":    {kittest.FaultTest{Given: given(of(2, 2), withIndexes)}, succeed},
		"failing":    {kittest.FaultTest{Given: given(of(1, 1), limit(1))}, fail},
		"shrinking":  {kittest.FaultTest{Given: given(of(3, 3)), Change: to(of(1, 3))}, never},
		"suspending": {kittest.FaultTest{Given: given(of(2, 2)), Change: to(suspend)}, never},
		"resuming":   {kittest.FaultTest{Given: given(of(2, 2), suspend), Change: to(resume)}, succeed},
		"deleted":    {kittest.FaultTest{Given: given(of(2, 2)), Change: func(t *testing.T, api *kittest.API) { api.Delete(t, get(t, api, "j")) }}, never},
	} {
		kubelet := kittest.Kubelet(c.ends)
		c.Run, c.World = []any{Descriptor()}, func(t *testing.T, api *kittest.API) {
			if len(kittest.List[batchv1.Job](t, api, "")) == 0 { // then the garbage collector deletes what it had
				for _, pod := range kittest.List[corev1.Pod](t, api, "") {
					if pod.DeletionTimestamp == nil { // one that is being deleted may go at any moment
						api.Delete(t, pod)
					}
				}
			}
			kubelet(t, api)
		}
		t.Run(name, func(t *testing.T) { kittest.InjectFaults(t, c.FaultTest) })
	}
}
