package job

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"orrery/controllers/job/indexes"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

type jobOption func(*batchv1.Job)

// newJob returns a Job as the server completes it.
func newJob(name string, opts ...jobOption) *batchv1.Job {
	labels := map[string]string{"controller-uid": name, "job-name": name}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 1},
		Spec: batchv1.JobSpec{
			Parallelism: new(int32(1)), Completions: new(int32(1)), BackoffLimit: new(int32(6)),
			CompletionMode:       new(batchv1.NonIndexedCompletion),
			PodReplacementPolicy: new(batchv1.TerminatingOrFailed),
			Selector:             &metav1.LabelSelector{MatchLabels: map[string]string{"controller-uid": name}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever,
					Containers:    []corev1.Container{{Name: "c", Image: "img"}},
				},
			},
		},
	}
	for _, o := range opts {
		o(job)
	}
	return job
}

func of(parallelism, completions int32) jobOption {
	return func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = &parallelism, &completions }
}

func workQueue(parallelism int32) jobOption {
	return func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = &parallelism, nil }
}

func withIndexes(j *batchv1.Job) { j.Spec.CompletionMode = new(batchv1.IndexedCompletion) }

func limit(n int32) jobOption { return func(j *batchv1.Job) { j.Spec.BackoffLimit = &n } }

func limitEach(n int32) jobOption {
	return func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex, j.Spec.BackoffLimit = &n, new(int32(1<<31-1)) }
}

func suspend(j *batchv1.Job) { j.Spec.Suspend = new(true) }

func failedOnly(j *batchv1.Job) { j.Spec.PodReplacementPolicy = new(batchv1.Failed) }

func policy(rules ...batchv1.PodFailurePolicyRule) jobOption {
	return func(j *batchv1.Job) {
		failedOnly(j)
		j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules}
	}
}

// on returns a rule for exit codes.
func on(action batchv1.PodFailurePolicyAction, codes ...int32) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
		Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: codes,
	}}
}

// start runs the controller on an API that takes no status which a server would refuse.
func start(t *testing.T, objs ...client.Object) *kittest.API {
	t.Helper()
	api := strict(t, objs...)
	api.Run(t, Descriptor())
	api.Settle()
	return api
}

func strict(t *testing.T, objs ...client.Object) *kittest.API {
	t.Helper()
	api := kittest.New(t, objs...)
	api.React(refuseBadStatus(t, api))
	return api
}

// refuseBadStatus fails the test where a server would refuse a status.
func refuseBadStatus(t *testing.T, api *kittest.API) func(*kittest.Request) *kittest.Reaction {
	return func(r *kittest.Request) *kittest.Reaction {
		if r.Verb != "update" || r.Resource.Resource != "jobs" || r.Subresource != "status" {
			return nil
		}
		var next batchv1.Job
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object.Object, &next); err != nil {
			t.Errorf("status: %v", err)
			return nil
		}
		old := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
		if !api.Get(t, old) || old.ResourceVersion != next.ResourceVersion {
			return nil // the API refuses it
		}
		next.Spec = old.Spec
		if wrong := faults(old, &next); len(wrong) > 0 {
			t.Errorf("the server would refuse the status of %s: %s\nold %+v\nnew %+v", r.Name, strings.Join(wrong, "; "), old.Status, next.Status)
			return kittest.Refuse(http.StatusUnprocessableEntity, strings.Join(wrong, "; "))
		}
		return nil
	}
}

// faults are the reasons for which a server refuses a new status, and what this controller keeps to besides.
func faults(old, next *batchv1.Job) (wrong []string) {
	a, b := &old.Status, &next.Status
	require := func(ok bool, what string) {
		if !ok {
			wrong = append(wrong, what)
		}
	}
	is := func(s *batchv1.JobStatus, kind batchv1.JobConditionType) bool {
		return slices.ContainsFunc(s.Conditions, func(c batchv1.JobCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
	}
	over := is(b, batchv1.JobComplete) || is(b, batchv1.JobFailed)
	completions := int(deref(next.Spec.Completions))
	for _, kind := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet} {
		require(!is(a, kind) || is(b, kind), "condition "+string(kind)+" cannot be taken back")
	}
	require(!is(b, batchv1.JobFailed) || is(b, batchv1.JobFailureTarget), "Failed without FailureTarget")
	require(!is(b, batchv1.JobComplete) || is(b, batchv1.JobSuccessCriteriaMet), "Complete without SuccessCriteriaMet")
	require(!is(b, batchv1.JobFailureTarget) || !is(b, batchv1.JobSuccessCriteriaMet), "both endings")
	require(!over || b.Active == 0, "active pods of a finished Job")
	require(!over || deref(b.Terminating) == 0, "terminating pods of a finished Job")
	require(!over || uncounted(b) == 0, "uncounted pods of a finished Job")
	require(!over || b.StartTime != nil || suspended(next) && ptr.Equal(next.Spec.Completions, new(int32(0))), "a finished Job without a start")
	require(is(b, batchv1.JobComplete) == (b.CompletionTime != nil), "completion time")
	require(b.CompletionTime == nil || b.StartTime == nil || !b.CompletionTime.Before(b.StartTime), "completed before it began")
	require(deref(b.Ready) <= b.Active, "more ready than active pods")
	require(b.Active >= 0 && deref(b.Ready) >= 0 && deref(b.Terminating) >= 0, "negative numbers")
	require(b.Failed >= a.Failed, "fewer failed pods")
	require(b.Succeeded >= a.Succeeded || indexed(next) && ptr.Equal(next.Spec.Completions, next.Spec.Parallelism), "fewer succeeded pods")
	require(uncounted(b) <= 500, "too many uncounted pods")
	resumes := is(a, batchv1.JobSuspended) && !is(b, batchv1.JobSuspended)
	require(a.StartTime == nil || a.StartTime.Equal(b.StartTime) || suspended(next) || resumes, "the start cannot change")
	done, lost := indexes.Parse(b.CompletedIndexes, 1<<30), indexes.Parse(deref(b.FailedIndexes), 1<<30)
	require(done.Common(lost) == 0, "an index that is completed and failed")
	require(indexed(next) || b.CompletedIndexes == "", "completed indexes without indexes")
	require(b.FailedIndexes == nil || next.Spec.BackoffLimitPerIndex != nil, "failed indexes without a limit for each")
	require(len(done) == 0 || done[len(done)-1].Last < completions || a.CompletedIndexes == b.CompletedIndexes, "an index that there is not")
	seen := map[types.UID]bool{}
	if u := b.UncountedTerminatedPods; u != nil {
		for _, uid := range slices.Concat(u.Succeeded, u.Failed) {
			require(!seen[uid] && uid != "", "an uncounted pod twice")
			seen[uid] = true
		}
	}
	return wrong
}

// get reads a Job of the default namespace.
func get(t *testing.T, api *kittest.API, name string) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if !api.Get(t, job) {
		t.Fatalf("Job %s is gone", name)
	}
	return job
}

func edit(t *testing.T, api *kittest.API, name string, opts ...jobOption) {
	t.Helper()
	job := get(t, api, name)
	for _, o := range opts {
		o(job)
	}
	api.Update(t, job)
}

func allPods(t *testing.T, api *kittest.API) []*corev1.Pod {
	t.Helper()
	return kittest.List[corev1.Pod](t, api, "")
}

// activePods are those that run or will.
func activePods(t *testing.T, api *kittest.API) []*corev1.Pod {
	t.Helper()
	return slices.DeleteFunc(allPods(t, api), func(p *corev1.Pod) bool {
		return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
}

// trackedPods are those with the finalizer.
func trackedPods(t *testing.T, api *kittest.API) []*corev1.Pod {
	t.Helper()
	return slices.DeleteFunc(allPods(t, api), func(p *corev1.Pod) bool { return !tracked(p) })
}

func changePod(t *testing.T, api *kittest.API, pod *corev1.Pod, how func(*corev1.Pod)) {
	t.Helper()
	if !api.Get(t, pod) {
		t.Fatalf("pod %s is gone", pod.Name)
	}
	how(pod)
	api.Update(t, pod)
}

// runs makes a pod run on a node, ready.
func runs(p *corev1.Pod) {
	p.Spec.NodeName = "node"
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

// exits makes a pod end with a code now.
func exits(code int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodSucceeded
		if code != 0 {
			p.Status.Phase = corev1.PodFailed
		}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()}},
		}}
	}
}

// finishAll ends all active pods.
func finishAll(t *testing.T, api *kittest.API, code int32) {
	t.Helper()
	for _, p := range activePods(t, api) {
		changePod(t, api, p, exits(code))
	}
}

func podOf(t *testing.T, api *kittest.API, index int) *corev1.Pod {
	t.Helper()
	for _, p := range activePods(t, api) {
		if p.Annotations[batchv1.JobCompletionIndexAnnotation] == strconv.Itoa(index) {
			return p
		}
	}
	t.Fatalf("no active pod has index %d", index)
	return nil
}

// indexesOfActive lists the indexes of active pods in order.
func indexesOfActive(t *testing.T, api *kittest.API) string {
	t.Helper()
	var all []int
	for _, p := range activePods(t, api) {
		n, err := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation])
		if err != nil {
			t.Errorf("pod %s: index: %v", p.Name, err)
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return strings.Trim(fmt.Sprint(all), "[]")
}

// summary puts what matters of a Job into a line.
func summary(job *batchv1.Job) string {
	s := job.Status
	out := fmt.Sprintf("active %d ready %d terminating %d succeeded %d failed %d", s.Active, deref(s.Ready), deref(s.Terminating), s.Succeeded, s.Failed)
	if n := uncounted(&s); n > 0 {
		out += fmt.Sprintf(" uncounted %d", n)
	}
	if indexed(job) {
		out += " completed [" + s.CompletedIndexes + "]"
	}
	if s.FailedIndexes != nil {
		out += " lost [" + *s.FailedIndexes + "]"
	}
	for _, c := range s.Conditions {
		out += fmt.Sprintf(" %s=%s:%s", c.Type, c.Status, c.Reason)
	}
	return out
}

func expect(t *testing.T, api *kittest.API, name, want string) {
	t.Helper()
	if got := summary(get(t, api, name)); got != want {
		t.Errorf("Job %s:\n got %s\nwant %s", name, got, want)
	}
}

const (
	isComplete = " SuccessCriteriaMet=True:CompletionsReached Complete=True:CompletionsReached"
	isFailed   = " FailureTarget=True:%[1]s Failed=True:%[1]s"
)

func count(writes []string, prefix string) int {
	n := 0
	for _, w := range writes {
		if strings.HasPrefix(w, prefix) {
			n++
		}
	}
	return n
}

// eventsOf lists the events, but those about single pods, as "Warning BackoffLimitExceeded: text".
func eventsOf(api *kittest.API) []string {
	var out []string
	for _, e := range api.Events() {
		if e.Reason != "SuccessfulCreate" && e.Reason != "SuccessfulDelete" {
			out = append(out, e.Type+" "+e.Reason+": "+e.Message)
		}
	}
	return out
}

func expectEvents(t *testing.T, api *kittest.API, want ...string) {
	t.Helper()
	if got := eventsOf(api); !slices.Equal(got, want) {
		t.Errorf("events:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

const statusWrites = "update batch/v1/jobs/status"

// settled lets everything happen, paced writes included.
func settled(api *kittest.API) { api.Pass(3 * time.Second) }
