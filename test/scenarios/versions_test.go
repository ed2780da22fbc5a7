package scenarios

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
)

// TestAServerWithoutSomeKinds has all that it needs but Jobs and CronJobs, as an older server has not all kinds either.
func TestAServerWithoutSomeKinds(t *testing.T) {
	t.Parallel()
	e := start(t, cluster.Options{
		Nodes: 1, Untaint: true, ControllerManager: cluster.Orrery, CMArgs: []string{"-v=2"}, APIServerArgs: []string{"--runtime-config=batch/v1=false"},
	})
	if err := e.WaitUsable(timeout(t, patience)); err != nil {
		t.Fatal(err)
	}
	must(e.Client().AppsV1().Deployments("default").Create(t.Context(), deployment("web", 3), metav1.CreateOptions{}))(t)
	eventually(t, "a deployment rolls out", func() error { return e.rolledOut(t, "default", "web", 3) })
	log := logOf(t, e.orrery())
	for _, kind := range []string{"Job.batch/v1", "CronJob.batch/v1"} {
		line := `"The API server does not have a kind; what needs it waits" kind="` + kind + `"`
		if n := strings.Count(log, line); n != 1 {
			t.Errorf("it says %d times that %s is missing, want once", n, kind)
		}
	}
	pages := visit(e.orrery(), e.admin(t))
	for name, missing := range map[string]string{
		"job-controller": "Job.batch/v1", "cronjob-controller": "Job.batch/v1", "ttl-after-finished-controller": "Job.batch/v1",
		"deployment-controller": "", "replicaset-controller": "", "garbage-collector-controller": "",
	} {
		code, body, err := pages.try(t, "/healthz/"+name)
		if healthy := code == 200; err != nil || healthy != (missing == "") {
			t.Errorf("/healthz/%s: %d, %v: %s", name, code, err, body)
		}
	}
	_, readyz, err := pages.try(t, "/readyz?verbose")
	if err != nil || !strings.Contains(readyz, "job-controller") {
		t.Errorf("/readyz: %v: %s", err, readyz)
	}
	for name, missing := range map[string]string{"job-controller": "Job.batch/v1", "cronjob-controller": "batch/v1"} {
		if text := pages.get(t, "/debug/controllers/"+name, 200); !strings.Contains(text, missing) || !strings.Contains(text, "the API server does not have") {
			t.Error(errors.New("/debug/controllers/" + name + " does not say what is missing: " + text))
		}
	}
}
