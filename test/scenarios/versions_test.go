package scenarios

import (
	"errors"
	"os"
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

// TestOlderAPIServers runs the daemon against kube-apiserver of older releases: those that are in the cache folder, or
// with VERSIONS=1, which is `make test-versions`, all, building what is missing.
func TestOlderAPIServers(t *testing.T) {
	t.Parallel()
	var want []string
	for _, version := range cluster.OlderVersions() {
		if os.Getenv("VERSIONS") != "" || cluster.Built(version) {
			want = append(want, version)
		}
	}
	if len(want) == 0 {
		t.Skip("no older kube-apiserver has been built; make test-versions builds them, which takes minutes each")
	}
	for _, version := range want {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			e := start(t, cluster.Options{Nodes: 2, Untaint: true, KubernetesVersion: version, ControllerManager: cluster.Orrery, CMArgs: []string{"-v=2"}})
			if err := e.WaitUsable(timeout(t, patience)); err != nil {
				t.Fatal(err)
			}
			if v := must(e.Client().Discovery().ServerVersion())(t); v.GitVersion != version {
				t.Fatalf("the server is %s", v.GitVersion)
			}
			s := &jobStage{e, e.namespace(t, "work")}
			must(e.Client().CoreV1().Services(s.ns).Create(t.Context(), service("web"), metav1.CreateOptions{}))(t)
			must(e.Client().AppsV1().Deployments(s.ns).Create(t.Context(), deployment("web", 5), metav1.CreateOptions{}))(t)
			s.run(t, "twice", brief, sized(2, 2))
			eventually(t, "the first template", func() error { return e.rolledOut(t, s.ns, "web", 5) })
			e.kubectl(t, "-n", s.ns, "set", "image", "deployment/web", "c=fake:2")
			eventually(t, "the second template, its endpoints and a Job", func() error {
				return errors.Join(e.rolledOut(t, s.ns, "web", 5), e.exposed(t, s.ns, "web", 5), differ("succeeded", s.job(t, "twice").Status.Succeeded, 2))
			})
			e.kubectl(t, "delete", "namespace", s.ns)
			if log := logOf(t, e.orrery()); strings.Contains(log, "does not have a kind") {
				t.Errorf("a kind is missing that every release has: %s", log)
			}
		})
	}
}
