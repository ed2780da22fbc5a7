package scenarios

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/hack/localcluster/cluster"
)

// jobStage is a namespace with Jobs in it.
type jobStage struct {
	*env
	ns string
}

// life says how long the containers of a Job's pods run and how they end, in annotations that kwok's stages read.
type life struct {
	runFor string
	code   string
}

var (
	brief   = life{runFor: "500ms"}
	forever = life{runFor: "1h"}
	broken  = life{runFor: "200ms", code: "3"}
)

// run creates a Job.
func (s *jobStage) run(t *testing.T, name string, l life, change func(*batchv1.JobSpec)) {
	t.Helper()
	pod := podSpec("fake:1")
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.TerminationGracePeriodSeconds = new(int64(1))
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}}
	job.Spec.Template.Annotations = map[string]string{"localcluster.orrery/run-for": l.runFor}
	if l.code != "" {
		job.Spec.Template.Annotations["localcluster.orrery/exit-code"] = l.code
	}
	if change != nil {
		change(&job.Spec)
	}
	must(s.Client().BatchV1().Jobs(s.ns).Create(t.Context(), job, metav1.CreateOptions{}))(t)
}

func sized(parallelism, completions int32, more ...func(*batchv1.JobSpec)) func(*batchv1.JobSpec) {
	return func(j *batchv1.JobSpec) {
		j.Parallelism, j.Completions = &parallelism, &completions
		for _, f := range more {
			f(j)
		}
	}
}

func indexed(j *batchv1.JobSpec) { j.CompletionMode = new(batchv1.IndexedCompletion) }

func limited(n int32) func(*batchv1.JobSpec) { return func(j *batchv1.JobSpec) { j.BackoffLimit = &n } }

func suspended(j *batchv1.JobSpec) { j.Suspend = new(true) }

func (s *jobStage) job(t *testing.T, name string) *batchv1.Job {
	t.Helper()
	return must(s.Client().BatchV1().Jobs(s.ns).Get(t.Context(), name, metav1.GetOptions{}))(t)
}

// podsOf returns all pods of a Job.
func (s *jobStage) podsOf(t *testing.T, name string) []corev1.Pod {
	t.Helper()
	return must(s.Client().CoreV1().Pods(s.ns).List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=" + name}))(t).Items
}

// state formats a Job's status.
func state(j *batchv1.Job) string {
	s := j.Status
	out := fmt.Sprintf("%d active, %d succeeded, %d failed", s.Active, s.Succeeded, s.Failed)
	if u := s.UncountedTerminatedPods; u != nil && len(u.Succeeded)+len(u.Failed) > 0 {
		out += fmt.Sprintf(", %d uncounted", len(u.Succeeded)+len(u.Failed))
	}
	if s.CompletedIndexes != "" {
		out += ", completed " + s.CompletedIndexes
	}
	if s.FailedIndexes != nil {
		out += ", lost " + *s.FailedIndexes
	}
	for _, c := range s.Conditions {
		if c.Status == corev1.ConditionTrue {
			out += fmt.Sprintf(", %s %s", c.Type, c.Reason)
		}
	}
	return out
}

// reach waits until Jobs are in the wanted states.
func (s *jobStage) reach(t *testing.T, want map[string]string) {
	t.Helper()
	eventually(t, "Jobs", func() error {
		var errs []error
		for _, name := range slices.Sorted(maps.Keys(want)) {
			errs = append(errs, differ(name, state(s.job(t, name)), want[name]))
		}
		return errors.Join(errs...)
	})
}

// nothingTracked fails the test if a pod still has the finalizer.
func (s *jobStage) nothingTracked(t *testing.T, jobs ...string) {
	t.Helper()
	for _, name := range jobs {
		for _, p := range s.podsOf(t, name) {
			if slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) {
				t.Errorf("pod %s keeps the finalizer", p.Name)
			}
		}
	}
}

const (
	complete = ", SuccessCriteriaMet CompletionsReached, Complete CompletionsReached"
	failedBy = ", FailureTarget %[1]s, Failed %[1]s"
)

func TestJobs(t *testing.T) {
	t.Parallel()
	e := withOrrery(t, 3)
	s := &jobStage{e, e.namespace(t, "jobs")}
	rule := func(action batchv1.PodFailurePolicyAction) func(*batchv1.JobSpec) {
		return func(j *batchv1.JobSpec) {
			j.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{Action: action,
				OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{3}}}}}
		}
	}
	begin := time.Now()
	s.run(t, "one", brief, nil)
	s.reach(t, map[string]string{"one": "0 active, 1 succeeded, 0 failed" + complete})
	if took := time.Since(begin); took > 10*time.Second { // on a busy machine
		t.Errorf("a Job of half a second took %v", took)
	}
	s.run(t, "many", brief, sized(10, 30))
	s.run(t, "big", brief, sized(600, 600))
	s.run(t, "indexes", brief, sized(20, 40, indexed))
	s.run(t, "queue", brief, func(j *batchv1.JobSpec) { j.Parallelism = new(int32(3)) })
	s.run(t, "fails", broken, limited(0))
	s.run(t, "each", broken, sized(2, 2, indexed, func(j *batchv1.JobSpec) { j.BackoffLimitPerIndex = new(int32(0)) }))
	s.run(t, "policy", broken, rule(batchv1.PodFailurePolicyActionFailJob))
	s.run(t, "ignore", broken, sized(1, 1, limited(0), rule(batchv1.PodFailurePolicyActionIgnore)))
	s.run(t, "late", forever, func(j *batchv1.JobSpec) { j.ActiveDeadlineSeconds = new(int64(2)) })
	s.run(t, "some", forever, sized(3, 3, indexed))
	s.run(t, "waits", forever, sized(2, 2, suspended))
	s.run(t, "empty", brief, sized(1, 0))
	s.run(t, "restarts", life{runFor: "200ms", code: "1"}, func(j *batchv1.JobSpec) {
		j.Template.Spec.RestartPolicy, j.BackoffLimit = corev1.RestartPolicyOnFailure, new(int32(2))
	})
	s.reach(t, map[string]string{
		"many":     "0 active, 30 succeeded, 0 failed" + complete,
		"big":      "0 active, 600 succeeded, 0 failed" + complete,
		"indexes":  "0 active, 40 succeeded, 0 failed, completed 0-39" + complete,
		"queue":    "0 active, 3 succeeded, 0 failed" + complete,
		"fails":    "0 active, 0 succeeded, 1 failed" + fmt.Sprintf(failedBy, "BackoffLimitExceeded"),
		"each":     "0 active, 0 succeeded, 2 failed, lost 0,1" + fmt.Sprintf(failedBy, "FailedIndexes"),
		"policy":   "0 active, 0 succeeded, 1 failed" + fmt.Sprintf(failedBy, "PodFailurePolicy"),
		"ignore":   "1 active, 0 succeeded, 0 failed", // after ten seconds
		"late":     "0 active, 0 succeeded, 1 failed" + fmt.Sprintf(failedBy, "DeadlineExceeded"),
		"some":     "3 active, 0 succeeded, 0 failed",
		"waits":    "0 active, 0 succeeded, 0 failed, Suspended JobSuspended",
		"empty":    "0 active, 0 succeeded, 0 failed" + complete,
		"restarts": "0 active, 0 succeeded, 1 failed" + fmt.Sprintf(failedBy, "BackoffLimitExceeded"),
	})
	s.nothingTracked(t, "one", "many", "big", "queue", "fails", "each", "policy", "late", "restarts")
	// Status updates that change only numbers are written once a second.
	s.writtenSeldom(t, map[string]int{"one": 5, "big": 10 + int(time.Since(begin).Seconds()), "empty": 1, "waits": 1})

	s.turn(t)
	e.kubectl(t, "-n", s.ns, "patch", "job", "some", "-p", `{"spec":{"parallelism":1,"completions":1}}`)
	s.reach(t, map[string]string{"some": "1 active, 0 succeeded, 0 failed"})
	e.kubectl(t, "-n", s.ns, "delete", "job", "some", "big", "ignore", "--cascade=foreground")
	e.kubectl(t, "-n", s.ns, "delete", "job", "many", "--cascade=orphan")
	eventually(t, "pods of deleted Jobs go, and others stay", func() error {
		return errors.Join(differ("pods of big", len(s.podsOf(t, "big")), 0), differ("pods of some", len(s.podsOf(t, "some")), 0),
			differ("pods of many", len(s.podsOf(t, "many")), 30))
	})
}

// turn resumes, suspends, changes and resumes a Job in quick succession.
func (s *jobStage) turn(t *testing.T) {
	t.Helper()
	for _, on := range []string{"false", "true", "false", "true"} {
		s.kubectl(t, "-n", s.ns, "patch", "job", "waits", "-p", `{"spec":{"suspend":`+on+`}}`)
	}
	eventually(t, "the suspended Job has no pods", func() error {
		j := s.job(t, "waits")
		return errors.Join(differ("pods", len(s.podsOf(t, "waits")), 0), differ("state", state(j), "0 active, 0 succeeded, 0 failed, Suspended JobSuspended"),
			differ("start", j.Status.StartTime, nil))
	})
	// A suspended Job may be changed, as it has no pods.
	s.kubectl(t, "-n", s.ns, "patch", "job", "waits", "-p",
		`{"spec":{"suspend":false,"template":{"metadata":{"annotations":{"localcluster.orrery/run-for":"300ms"}},"spec":{"nodeSelector":{"kubernetes.io/os":"linux"},"containers":[{"name":"c","resources":{"requests":{"cpu":"2m"}}}]}}}}`)
	s.reach(t, map[string]string{"waits": "0 active, 2 succeeded, 0 failed" + complete})
	for _, p := range s.podsOf(t, "waits") {
		if p.Spec.NodeSelector["kubernetes.io/os"] != "linux" || p.Spec.Containers[0].Resources.Requests.Cpu().String() != "2m" {
			t.Errorf("pod %s is not of the changed template", p.Name)
		}
	}
}

// writtenSeldom counts how often the daemon has written the status of Jobs.
func (s *jobStage) writtenSeldom(t *testing.T, most map[string]int) {
	t.Helper()
	n := map[string]int{}
	for _, a := range s.audit(t, func(a auditEvent) bool { return a.byOrrery() && a.kind() == "jobs/status" && a.Response.Code == 200 }) {
		n[a.Object.Name]++
	}
	t.Logf("writes of the status: %v", n)
	for name, limit := range most {
		if n[name] > limit || n[name] == 0 {
			t.Errorf("the status of %s was written %d times, want 1 to %d", name, n[name], limit)
		}
	}
}

// TestHandOverOfJobs stops one controller manager in the middle of Jobs and lets the other finish them, and back.
func TestHandOverOfJobs(t *testing.T) {
	own(t, "changes the controller manager")
	for _, order := range [][2]cluster.ManagerKind{{cluster.Upstream, cluster.Orrery}, {cluster.Orrery, cluster.Upstream}} {
		t.Run(fmt.Sprintf("%s to %s", order[0], order[1]), func(t *testing.T) {
			t.Parallel()
			handOverJobs(t, order[0], order[1])
		})
	}
}

func handOverJobs(t *testing.T, from, to cluster.ManagerKind) {
	e := start(t, cluster.Options{Nodes: 3, Untaint: true, ControllerManager: from, CMArgs: append([]string{"-v=2"}, raised...)})
	if err := e.WaitUsable(timeout(t, 2*patience)); err != nil {
		t.Fatal(err)
	}
	s := &jobStage{e, e.namespace(t, "jobs")}
	s.run(t, "done", brief, sized(3, 3))
	s.run(t, "runs", forever, sized(3, 3, indexed))
	s.run(t, "waits", forever, sized(3, 3, suspended))
	s.run(t, "fails", life{runFor: "100ms", code: "1"}, nil)
	s.run(t, "each", broken, sized(2, 2, indexed, func(j *batchv1.JobSpec) { j.BackoffLimitPerIndex = new(int32(1)) }))
	s.reach(t, map[string]string{
		"done": "0 active, 3 succeeded, 0 failed" + complete, "runs": "3 active, 0 succeeded, 0 failed",
		"waits": "0 active, 0 succeeded, 0 failed, Suspended JobSuspended", "fails": "0 active, 0 succeeded, 1 failed",
	})
	s.run(t, "plain", life{runFor: "3s"}, sized(20, 60))
	s.run(t, "indexed", life{runFor: "3s"}, sized(20, 60, indexed))
	s.run(t, "half", life{runFor: "4s"}, sized(4, 6))
	eventually(t, "the Jobs are under way", func() error {
		return errors.Join(differ("active", s.job(t, "indexed").Status.Active, 20), differ("active", s.job(t, "half").Status.Active, 4))
	})
	before := s.versions(t, "done", "runs", "waits")
	e.stopManager(t)
	s.leaveHalfDone(t, "half")

	e.manage(t, to, raised...)
	s.reach(t, map[string]string{
		"plain":   "0 active, 60 succeeded, 0 failed" + complete,
		"indexed": "0 active, 60 succeeded, 0 failed, completed 0-59" + complete,
		"half":    "0 active, 6 succeeded, 0 failed" + complete,
		"each":    "0 active, 0 succeeded, 4 failed, lost 0,1" + fmt.Sprintf(failedBy, "FailedIndexes"),
	})
	s.nothingTracked(t, "plain", "indexed", "half", "each")
	for name, want := range map[string]int{"plain": 60, "indexed": 60, "half": 6, "each": 4} {
		if n := len(s.podsOf(t, name)); n != want {
			t.Errorf("%d pods were made for %s, want %d", n, name, want)
		}
	}
	s.unchanged(t, before, to)
	s.kubectl(t, "-n", s.ns, "delete", "job", "fails") // the only one that still changes
	before = s.versions(t, "done", "runs", "waits", "plain", "indexed", "half", "each")
	e.stopManager(t)
	e.manage(t, from, raised...)
	time.Sleep(5 * time.Second) // for all that it might want to write
	s.unchanged(t, before, from)
}

// leaveHalfDone writes the state that a manager leaves if it is stopped between the steps of counting: of the pods that have
// ended, one is listed and has its finalizer, one is listed and has lost it, and the others are not listed.
func (s *jobStage) leaveHalfDone(t *testing.T, name string) {
	t.Helper()
	var ended []corev1.Pod
	eventually(t, "pods end while no manager runs", func() error {
		ended = slices.DeleteFunc(s.podsOf(t, name), func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodSucceeded })
		return differ("ended", len(ended), 4)
	})
	job := s.job(t, name)
	job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{ended[0].UID, ended[1].UID}}
	must(s.Client().BatchV1().Jobs(s.ns).UpdateStatus(t.Context(), job, metav1.UpdateOptions{}))(t)
	s.kubectl(t, "-n", s.ns, "patch", "pod", ended[0].Name, "--type=json", "-p", `[{"op":"remove","path":"/metadata/finalizers"}]`)
}

// versions returns the versions of Jobs and of their pods.
func (s *jobStage) versions(t *testing.T, jobs ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range jobs {
		j := s.job(t, name)
		out["job "+name] = j.ResourceVersion
		for _, p := range s.podsOf(t, name) {
			out["pod "+p.Name+" of "+name] = p.ResourceVersion
		}
	}
	return out
}

func (s *jobStage) unchanged(t *testing.T, before map[string]string, by cluster.ManagerKind) {
	t.Helper()
	var jobs []string
	for what := range before {
		if name, ok := strings.CutPrefix(what, "job "); ok {
			jobs = append(jobs, name)
		}
	}
	after := s.versions(t, jobs...)
	for what, version := range before {
		if after[what] != version {
			t.Errorf("%s rewrote %s: version %s, then %s", by, what, version, after[what])
		}
	}
	if len(after) != len(before) {
		t.Errorf("with %s there are %d Jobs and pods, and there were %d", by, len(after), len(before))
	}
}
