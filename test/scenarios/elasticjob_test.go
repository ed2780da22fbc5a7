package scenarios

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
)

// TestAnElasticJobThatIsCutDownTwice lowers the completions of a Job, and then its parallelism alone, while no manager runs.
// The server takes no smaller count of successes then, and with it would refuse the whole status.
func TestAnElasticJobThatIsCutDownTwice(t *testing.T) {
	own(t, "stops the controller manager")
	t.Parallel()
	e := start(t, cluster.Options{Nodes: 1, Untaint: true, ControllerManager: cluster.Orrery, CMArgs: []string{"-v=2"}})
	if err := e.WaitUsable(timeout(t, 2*patience)); err != nil {
		t.Fatal(err)
	}
	s := &jobStage{e, e.namespace(t, "jobs")}
	s.run(t, "elastic", forever, sized(6, 6, indexed))
	eventually(t, "all pods run", func() error {
		ready := s.job(t, "elastic").Status.Ready
		return differ("all are ready", ready != nil && *ready == 6, true)
	})
	s.succeed(t, "elastic", "2", "3", "4", "5")
	s.reach(t, map[string]string{"elastic": "2 active, 4 succeeded, 0 failed, completed 2-5"})
	e.stopManager(t)
	s.kubectl(t, "-n", s.ns, "patch", "job", "elastic", "-p", `{"spec":{"parallelism":3,"completions":3}}`)
	s.kubectl(t, "-n", s.ns, "patch", "job", "elastic", "-p", `{"spec":{"parallelism":1}}`)
	e.manage(t, cluster.Orrery)
	s.reach(t, map[string]string{"elastic": "1 active, 4 succeeded, 0 failed, completed 2"})
}

// succeed ends the pods of some indexes.
func (s *jobStage) succeed(t *testing.T, job string, indexes ...string) {
	t.Helper()
	for _, p := range s.podsOf(t, job) {
		if slices.Contains(indexes, p.Annotations[batchv1.JobCompletionIndexAnnotation]) {
			p.Status.Phase = corev1.PodSucceeded
			must(s.Client().CoreV1().Pods(s.ns).UpdateStatus(t.Context(), &p, metav1.UpdateOptions{}))(t)
		}
	}
}
