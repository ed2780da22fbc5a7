package job

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var now = time.Unix(100000, 0)

type podOption func(*corev1.Pod)

// podWith returns a tracked pod of a Job.
func podWith(name string, opts ...podOption) *corev1.Pod {
	p := newPod(name)
	p.UID = types.UID(name)
	p.Annotations = map[string]string{}
	p.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
	p.Status.Phase = corev1.PodRunning
	for _, o := range opts {
		o(p)
	}
	return p
}

func at(index int) podOption {
	return func(p *corev1.Pod) { p.Annotations[batchv1.JobCompletionIndexAnnotation] = fmt.Sprint(index) }
}

func after(failures int) podOption {
	return func(p *corev1.Pod) { p.Annotations[batchv1.JobIndexFailureCountAnnotation] = fmt.Sprint(failures) }
}

func ignoring(failures int) podOption {
	return func(p *corev1.Pod) {
		p.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = fmt.Sprint(failures)
	}
}

// ended makes a pod end some time ago.
func ended(code int32, ago time.Duration) podOption {
	return func(p *corev1.Pod) {
		exits(code)(p)
		p.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(now.Add(-ago))
	}
}

func deleted(ago time.Duration) podOption {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: now.Add(-ago + 30*time.Second)}, new(int64(30))
	}
}

func free(p *corev1.Pod) { p.Finalizers = nil }

func has(kind corev1.PodConditionType, status corev1.ConditionStatus) podOption {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: status})
	}
}

func TestTheFirstRuleThatAppliesDecides(t *testing.T) {
	notIn := func(action batchv1.PodFailurePolicyAction, container *string, codes ...int32) batchv1.PodFailurePolicyRule {
		r := on(action, codes...)
		r.OnExitCodes.Operator, r.OnExitCodes.ContainerName = batchv1.PodFailurePolicyOnExitCodesOpNotIn, container
		return r
	}
	onCondition := func(action batchv1.PodFailurePolicyAction, kind corev1.PodConditionType) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: action, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: "Other", Status: corev1.ConditionTrue}, {Type: kind, Status: corev1.ConditionTrue},
		}}
	}
	const failJob, failIndex, ignore, count = batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionFailIndex, batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionCount
	withInit := func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 9}}}}
	}
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		rules   []batchv1.PodFailurePolicyRule
		action  batchv1.PodFailurePolicyAction
		message string
	}{
		"a code":                        {podWith("p", ended(3, 0)), []batchv1.PodFailurePolicyRule{on(ignore, 2), on(failJob, 3)}, failJob, "Container c for pod default/p failed with exit code 3 matching FailJob rule at index 1"},
		"the first of two":              {podWith("p", ended(3, 0)), []batchv1.PodFailurePolicyRule{on(count, 3), on(failJob, 3)}, count, ""},
		"another code":                  {podWith("p", ended(4, 0)), []batchv1.PodFailurePolicyRule{on(ignore, 2), on(failJob, 3)}, "", ""},
		"not a code":                    {podWith("p", ended(4, 0)), []batchv1.PodFailurePolicyRule{notIn(failIndex, nil, 3)}, failIndex, ""},
		"a clean exit is not a code":    {podWith("p", ended(0, 0)), []batchv1.PodFailurePolicyRule{notIn(failIndex, nil, 3)}, "", ""},
		"of another container":          {podWith("p", ended(4, 0)), []batchv1.PodFailurePolicyRule{notIn(ignore, new("d"), 3)}, "", ""},
		"of this container":             {podWith("p", ended(4, 0)), []batchv1.PodFailurePolicyRule{notIn(ignore, new("c"), 3)}, ignore, ""},
		"of an init container":          {podWith("p", withInit), []batchv1.PodFailurePolicyRule{on(failJob, 9)}, failJob, "Container i for pod default/p failed with exit code 9 matching FailJob rule at index 0"},
		"of one that still runs":        {podWith("p", runs), []batchv1.PodFailurePolicyRule{notIn(failJob, nil, 1)}, "", ""},
		"a condition":                   {podWith("p", has(corev1.DisruptionTarget, corev1.ConditionTrue)), []batchv1.PodFailurePolicyRule{onCondition(failJob, corev1.DisruptionTarget)}, failJob, "Pod default/p has condition DisruptionTarget matching FailJob rule at index 0"},
		"a condition ignored":           {podWith("p", has(corev1.DisruptionTarget, corev1.ConditionTrue)), []batchv1.PodFailurePolicyRule{onCondition(ignore, corev1.DisruptionTarget)}, ignore, ""},
		"a condition of another status": {podWith("p", has(corev1.DisruptionTarget, corev1.ConditionFalse)), []batchv1.PodFailurePolicyRule{onCondition(failJob, corev1.DisruptionTarget)}, "", ""},
		"an action yet unknown":         {podWith("p", ended(3, 0)), []batchv1.PodFailurePolicyRule{on("Dance", 3), on(count, 3)}, count, ""},
		"no rule":                       {podWith("p", ended(3, 0)), nil, "", ""},
	} {
		got := judge(&batchv1.PodFailurePolicy{Rules: c.rules}, c.pod)
		if got.action != c.action || got.message != c.message || got.counts() != (c.action != ignore) {
			t.Errorf("%s: %+v, want %s %q", name, got, c.action, c.message)
		}
	}
	if got := judge(nil, podWith("p", ended(3, 0))); got.action != "" || !got.counts() {
		t.Errorf("without a policy: %+v", got)
	}
}

func TestWhenAPodEnded(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	initEnds := func(name string, ago time.Duration, sidecar bool) podOption {
		return func(p *corev1.Pod) {
			c := corev1.Container{Name: name}
			if sidecar {
				c.RestartPolicy = &always
			}
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
			p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, corev1.ContainerStatus{Name: name,
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(now.Add(-ago))}}})
		}
	}
	second := func(ago time.Duration) podOption {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "d",
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(now.Add(-ago))}}})
		}
	}
	unready := func(ago time.Duration) podOption {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Add(-ago))}}
		}
	}
	undated := func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.Time{} }
	for name, c := range map[string]struct {
		opts []podOption
		ago  time.Duration
	}{
		"its container":              {[]podOption{ended(1, time.Minute), unready(time.Second)}, time.Minute},
		"the last of its containers": {[]podOption{ended(1, time.Minute), second(20 * time.Second)}, 20 * time.Second},
		"a sidecar":                  {[]podOption{ended(1, time.Minute), initEnds("s", 10*time.Second, true)}, 10 * time.Second},
		"not an init container":      {[]podOption{ended(1, time.Minute), initEnds("i", 10*time.Second, false)}, time.Minute},
		"no longer ready":            {[]podOption{ended(1, time.Minute), undated, unready(5 * time.Second)}, 5 * time.Second},
		"without any container":      {[]podOption{unready(5 * time.Second)}, 5 * time.Second},
		"asked to go":                {[]podOption{deleted(7 * time.Second)}, 7 * time.Second},
		"nothing but its creation":   {nil, time.Hour},
		"before it was created":      {[]podOption{ended(1, 2*time.Hour), unready(3 * time.Hour)}, time.Hour},
	} {
		if got := finishTime(podWith("p", c.opts...)); !got.Equal(now.Add(-c.ago)) {
			t.Errorf("%s: %v ago, want %v", name, now.Sub(got), c.ago)
		}
	}
}

func TestTheDelayDoublesWithEachFailure(t *testing.T) {
	for failures, want := range map[int32]time.Duration{
		0: 0, 1: 10 * time.Second, 2: 20 * time.Second, 3: 40 * time.Second, 6: 320 * time.Second, 7: 10 * time.Minute, 8: 10 * time.Minute, 1 << 30: 10 * time.Minute,
	} {
		h := history{failures: failures, last: now}
		if got := h.wait(now); got != want {
			t.Errorf("after %d failures %v, want %v", failures, got, want)
		}
		if got := h.wait(now.Add(want + 1)); got != 0 {
			t.Errorf("after %d failures and the delay still %v", failures, got)
		}
		if got := h.wait(now.Add(-time.Hour)); got != want {
			t.Errorf("after %d failures that are in the future %v, want no more than %v", failures, got, want)
		}
	}
}

func TestASuccessEndsTheFailuresBeforeIt(t *testing.T) {
	ago := func(code int32, seconds ...int) (out []*corev1.Pod) {
		for i, s := range seconds {
			out = append(out, podWith(fmt.Sprint(code, i), ended(code, time.Duration(s)*time.Second)))
		}
		return out
	}
	old := history{failures: 3, last: now.Add(-time.Minute)}
	for name, c := range map[string]struct {
		before    history
		good, bad []*corev1.Pod
		want      int32
		lastAgo   time.Duration
	}{
		"nothing new":              {before: old, want: 3, lastAgo: time.Minute},
		"a failure":                {before: old, bad: ago(1, 10), want: 4, lastAgo: 10 * time.Second},
		"several":                  {before: old, bad: ago(1, 10, 30, 5), want: 6, lastAgo: 5 * time.Second},
		"a success":                {before: old, good: ago(0, 10)},
		"a success after failures": {before: old, good: ago(0, 10), bad: ago(1, 20, 10)},
		"failures after a success": {before: old, good: ago(0, 40, 30), bad: ago(1, 20, 35, 10), want: 2, lastAgo: 10 * time.Second},
		"the first failure of all": {bad: ago(1, 50), want: 1, lastAgo: 50 * time.Second},
	} {
		got := c.before.with(c.good, c.bad)
		if got.failures != c.want || c.want > 0 && !got.last.Equal(now.Add(-c.lastAgo)) {
			t.Errorf("%s: %d, the last %v ago; want %d, %v", name, got.failures, now.Sub(got.last), c.want, c.lastAgo)
		}
	}
}

// sketch puts a plan into words.
func sketch(p plan) string {
	var out []string
	for _, pod := range p.remove {
		out = append(out, "-"+pod.Name)
	}
	for _, pod := range p.track {
		out = append(out, "^"+pod.Name)
	}
	slices.Sort(out)
	for _, i := range p.create {
		out = append(out, fmt.Sprintf("+%d", i))
	}
	if p.wait > 0 {
		out = append(out, p.wait.String())
	}
	return strings.Join(out, " ")
}

func TestPlans(t *testing.T) {
	status := func(succeeded int32, completed, lost string) jobOption {
		return func(j *batchv1.Job) {
			j.Status.Succeeded, j.Status.CompletedIndexes = succeeded, completed
			if lost != "" {
				j.Status.FailedIndexes = &lost
			}
		}
	}
	going := func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: now} }
	a, b, c := podWith("a"), podWith("b", runs), podWith("c", runs)
	b.Status.Conditions, c.CreationTimestamp = nil, metav1.NewTime(now)
	for name, tc := range map[string]struct {
		opts []jobOption
		pods []*corev1.Pod
		want string
	}{
		"nothing there":                     {[]jobOption{of(2, 5)}, nil, "+-1 +-1"},
		"one there":                         {[]jobOption{of(2, 5)}, []*corev1.Pod{a}, "+-1"},
		"no more than are left":             {[]jobOption{of(3, 5), status(4, "", "")}, nil, "+-1"},
		"enough":                            {[]jobOption{of(1, 5)}, []*corev1.Pod{a}, ""},
		"one too many":                      {[]jobOption{of(2, 5)}, []*corev1.Pod{a, b, c}, "-a"},
		"all are done":                      {[]jobOption{of(2, 2), status(2, "", "")}, []*corev1.Pod{a}, "-a"},
		"being deleted":                     {[]jobOption{of(3, 5), going}, []*corev1.Pod{a}, ""},
		"suspended":                         {[]jobOption{of(3, 5), suspend}, []*corev1.Pod{a, b}, "-a -b"},
		"a queue":                           {[]jobOption{workQueue(2)}, []*corev1.Pod{a}, "+-1"},
		"a queue with a success":            {[]jobOption{workQueue(2)}, []*corev1.Pod{a, podWith("s", ended(0, 0))}, ""},
		"one goes and is as good as failed": {[]jobOption{of(2, 5)}, []*corev1.Pod{a, podWith("d", deleted(20*time.Second))}, "+-1"},
		"one goes and has to end first":     {[]jobOption{of(2, 5), failedOnly}, []*corev1.Pod{a, podWith("d", deleted(0))}, ""},
		"a failure a moment ago":            {[]jobOption{of(2, 5)}, []*corev1.Pod{a, podWith("f", ended(1, 4*time.Second))}, "6s"},
		"a failure long ago":                {[]jobOption{of(2, 5)}, []*corev1.Pod{a, podWith("f", ended(1, time.Minute))}, "+-1"},
		"one that lost its finalizer":       {[]jobOption{of(2, 5)}, []*corev1.Pod{a, podWith("u", free)}, "^u"},
		"which is one too many":             {[]jobOption{of(1, 5), suspend}, []*corev1.Pod{podWith("u", free)}, "-u"},

		"the lowest indexes first":        {[]jobOption{of(3, 9), withIndexes, status(3, "0,2,5", "")}, []*corev1.Pod{podWith("x", at(1))}, "+3 +4"},
		"an index of its own":             {[]jobOption{of(3, 9), withIndexes}, []*corev1.Pod{podWith("x", at(1)), podWith("y", at(1), runs), podWith("z")}, "-x -z"},
		"an index that there is not":      {[]jobOption{of(3, 3), withIndexes}, []*corev1.Pod{podWith("x", at(3)), podWith("y", at(1))}, "-x"},
		"an index that is no number":      {[]jobOption{of(3, 3), withIndexes}, []*corev1.Pod{podWith("x", func(p *corev1.Pod) { p.Annotations[batchv1.JobCompletionIndexAnnotation] = "x" })}, "-x"},
		"an index that goes":              {[]jobOption{of(3, 3), withIndexes, failedOnly}, []*corev1.Pod{podWith("x", at(0), deleted(0))}, "+1 +2"},
		"lost indexes are not tried":      {[]jobOption{of(3, 4), withIndexes, limitEach(1), status(1, "0", "1,2")}, nil, "+3"},
		"an index waits by itself":        {[]jobOption{of(3, 3), withIndexes, limitEach(3)}, []*corev1.Pod{podWith("x", at(0), after(1), ended(1, 5*time.Second))}, "+1 +2 15s"},
		"the shortest wait counts":        {[]jobOption{of(2, 2), withIndexes, limitEach(3)}, []*corev1.Pod{podWith("x", at(0), after(1), ended(1, 5*time.Second)), podWith("y", at(1), after(0), ended(1, 2*time.Second))}, "8s"},
		"ignored failures make it longer": {[]jobOption{of(1, 1), withIndexes, limitEach(3)}, []*corev1.Pod{podWith("x", at(0), after(1), ignoring(1), ended(1, 5*time.Second))}, "35s"},
		"the last failure counts":         {[]jobOption{of(1, 1), withIndexes, limitEach(3)}, []*corev1.Pod{podWith("x", at(0), after(1), ended(1, 5*time.Second)), podWith("y", at(0), after(0), ended(1, 2*time.Second))}, "15s"},
	} {
		t.Run(name, func(t *testing.T) {
			v := survey(newJob("j", tc.opts...), tc.pods, now)
			if got := sketch(planOf(v, endingOf(v), history{}.with(v.newSucceeded, v.newFailed))); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestPlansAreMadeInBursts(t *testing.T) {
	v := survey(newJob("j", of(1200, 1200)), nil, now)
	if p := planOf(v, ending{}, history{}); len(p.create) != 500 || !p.more {
		t.Errorf("%d pods are created, more %t", len(p.create), p.more)
	}
	var many []*corev1.Pod
	for i := range 700 {
		many = append(many, podWith(fmt.Sprint(i)))
	}
	for name, job := range map[string]*batchv1.Job{"suspended": newJob("j", of(700, 700), suspend), "fewer": newJob("j", of(10, 700))} {
		if p := planOf(survey(job, many, now), ending{}, history{}); len(p.remove) != 500 || !p.more || !p.surplus {
			t.Errorf("%s: %d pods are deleted, more %t, surplus %t", name, len(p.remove), p.more, p.surplus)
		}
	}
	if p := planOf(survey(newJob("j", of(700, 700)), many, now), fails("x", "y"), history{}); len(p.remove) != 500 || !p.more || p.surplus {
		t.Errorf("at the end %d pods are deleted, more %t, surplus %t", len(p.remove), p.more, p.surplus)
	}
}

func TestEndings(t *testing.T) {
	successRules := func(rules ...batchv1.SuccessPolicyRule) jobOption {
		return func(j *batchv1.Job) { j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: rules} }
	}
	completed := func(text string) jobOption { return func(j *batchv1.Job) { j.Status.CompletedIndexes = text } }
	declared := func(kind batchv1.JobConditionType) jobOption {
		return func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{condition(kind, corev1.ConditionTrue, "Because", "of this", now)}
		}
	}
	started := func(ago time.Duration, limit int64) jobOption {
		return func(j *batchv1.Job) {
			j.Status.StartTime, j.Spec.ActiveDeadlineSeconds = &metav1.Time{Time: now.Add(-ago)}, &limit
		}
	}
	failed := func(n int32) jobOption { return func(j *batchv1.Job) { j.Status.Failed = n } }
	listed := func(j *batchv1.Job) {
		j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Failed: []types.UID{"x", "gone"}}
	}
	for name, c := range map[string]struct {
		opts []jobOption
		pods []*corev1.Pod
		want string
	}{
		"it goes on":                        {[]jobOption{limit(1), failed(1)}, nil, ""},
		"too many are counted":              {[]jobOption{limit(1), failed(2)}, nil, "Failed BackoffLimitExceeded"},
		"too many with a new one":           {[]jobOption{limit(1), failed(1)}, []*corev1.Pod{podWith("f", ended(1, 0))}, "Failed BackoffLimitExceeded"},
		"too many with listed ones":         {[]jobOption{limit(1), listed}, []*corev1.Pod{podWith("x", ended(1, 0))}, "Failed BackoffLimitExceeded"},
		"a listed one counts once":          {[]jobOption{limit(2), listed}, []*corev1.Pod{podWith("x", ended(1, 0))}, ""},
		"one that is counted":               {[]jobOption{limit(1), failed(1)}, []*corev1.Pod{podWith("f", ended(1, 0), free)}, ""},
		"an ignored one":                    {[]jobOption{limit(0), policy(on(batchv1.PodFailurePolicyActionIgnore, 1))}, []*corev1.Pod{podWith("f", ended(1, 0))}, ""},
		"before the deadline":               {[]jobOption{started(time.Minute, 61)}, nil, ""},
		"at the deadline":                   {[]jobOption{started(time.Minute, 60)}, nil, "Failed DeadlineExceeded"},
		"a deadline beyond what is counted": {[]jobOption{started(time.Minute, math.MaxInt64)}, nil, ""},
		"a little beyond it":                {[]jobOption{started(time.Minute, 9_999_999_999)}, nil, ""},
		"resumed, and not yet noted":        {[]jobOption{started(time.Hour, 60), declared(batchv1.JobSuspended)}, nil, ""},
		"the policy is before the limit":    {[]jobOption{limit(0), policy(on(batchv1.PodFailurePolicyActionFailJob, 1))}, []*corev1.Pod{podWith("f", ended(1, 0))}, "Failed PodFailurePolicy"},
		"what is declared stands":           {[]jobOption{limit(0), failed(5), declared(batchv1.JobSuccessCriteriaMet)}, nil, "Complete Because!"},
		"also a failure":                    {[]jobOption{declared(batchv1.JobFailureTarget)}, nil, "Failed Because!"},
		"an index is lost":                  {[]jobOption{of(2, 2), withIndexes, limitEach(0)}, []*corev1.Pod{podWith("f", at(0), after(0), ended(1, 0))}, ""},
		"all others are complete":           {[]jobOption{of(2, 2), withIndexes, limitEach(0), completed("1")}, []*corev1.Pod{podWith("f", at(0), after(0), ended(1, 0))}, "Failed FailedIndexes"},
		"an index may fail again":           {[]jobOption{of(2, 2), withIndexes, limitEach(1), completed("1")}, []*corev1.Pod{podWith("f", at(0), after(0), ended(1, 0))}, ""},
		"unless the policy says no":         {[]jobOption{of(2, 2), withIndexes, limitEach(1), completed("1"), policy(on(batchv1.PodFailurePolicyActionFailIndex, 1))}, []*corev1.Pod{podWith("f", at(0), after(0), ended(1, 0))}, "Failed FailedIndexes"},
		"a success is before a failure":     {[]jobOption{of(2, 2), withIndexes, limitEach(0)}, []*corev1.Pod{podWith("f", at(0), after(0), ended(1, 0)), podWith("s", at(0), ended(0, 0))}, ""},
		"enough indexes":                    {[]jobOption{of(5, 5), withIndexes, completed("1,3"), successRules(batchv1.SuccessPolicyRule{SucceededCount: new(int32(3))}, batchv1.SuccessPolicyRule{SucceededCount: new(int32(2))})}, nil, "Complete SuccessPolicy: Matched rules at index 1"},
		"these indexes":                     {[]jobOption{of(5, 5), withIndexes, completed("1,3"), successRules(batchv1.SuccessPolicyRule{SucceededIndexes: new("1,3")})}, nil, "Complete SuccessPolicy: Matched rules at index 0"},
		"not all of these indexes":          {[]jobOption{of(5, 5), withIndexes, completed("1,3"), successRules(batchv1.SuccessPolicyRule{SucceededIndexes: new("1-3")})}, nil, ""},
		"enough of these indexes":           {[]jobOption{of(5, 5), withIndexes, completed("0,1,3"), successRules(batchv1.SuccessPolicyRule{SucceededIndexes: new("1-3"), SucceededCount: new(int32(2))})}, nil, "Complete SuccessPolicy: Matched rules at index 0"},
		"a rule about nothing":              {[]jobOption{of(5, 5), withIndexes, completed("1"), successRules(batchv1.SuccessPolicyRule{SucceededIndexes: new("x")})}, nil, ""},
		"a failure is before the successes": {[]jobOption{of(5, 5), withIndexes, completed("1"), limit(0), failed(1), successRules(batchv1.SuccessPolicyRule{SucceededCount: new(int32(1))})}, nil, "Failed BackoffLimitExceeded"},
	} {
		e := endingOf(survey(newJob("j", c.opts...), c.pods, now))
		got := strings.TrimSpace(string(e.kind) + " " + e.reason)
		if e.declared {
			got += "!"
		}
		if e.reason == batchv1.JobReasonSuccessPolicy {
			got += ": " + e.message
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestThePodThatEndedFirstSaysWhyTheJobFails(t *testing.T) {
	job := newJob("j", of(3, 3), policy(on(batchv1.PodFailurePolicyActionFailJob, 1)))
	pods := []*corev1.Pod{podWith("late", ended(1, time.Second)), podWith("first", ended(1, time.Minute)), podWith("other", ended(1, time.Minute/2))}
	if e := endingOf(survey(job, pods, now)); !strings.Contains(e.message, "default/first ") {
		t.Errorf("message %q", e.message)
	}
}

func TestNamesOfIndexedPods(t *testing.T) {
	long := strings.Repeat("x", 63)
	for _, c := range []struct{ job, index, want string }{
		{"j", "0", "j-0-"}, {"j", "12345", "j-12345-"},
		{long, "7", long[:55] + "-7-"}, {long, "99999", long[:51] + "-99999-"}, {long[:55], "7", long[:55] + "-7-"},
	} {
		if got := indexedPrefix(c.job, c.index); got != c.want || len(got) > 58 {
			t.Errorf("%s of %s: %s, want %s", c.index, c.job, got, c.want)
		}
	}
}

func TestWhichChangesMatter(t *testing.T) {
	base := podWith("p", runs).DeepCopy
	if !matters(nil, base()) || !matters(base(), nil) {
		t.Error("a pod that comes or goes does not matter")
	}
	for name, c := range map[string]struct {
		change podOption
		want   bool
	}{
		"nothing":         {func(*corev1.Pod) {}, false},
		"counted":         {free, false},
		"annotated":       {func(p *corev1.Pod) { p.Annotations = map[string]string{"note": "x"} }, false},
		"of an index":     {at(3), true},
		"of failures":     {func(p *corev1.Pod) { p.Annotations = map[string]string{batchv1.JobIndexFailureCountAnnotation: "2"} }, true},
		"scheduled":       {func(p *corev1.Pod) { p.Spec.NodeName = "n" }, false},
		"ended":           {ended(0, 0), true},
		"no longer ready": {func(p *corev1.Pod) { p.Status.Conditions = nil }, true},
		"restarted":       {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount++ }, true},
		"being deleted":   {deleted(0), true},
		"labelled":        {func(p *corev1.Pod) { p.Labels = nil }, true},
		"owned":           {func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{UID: "u", Controller: new(true)}} }, true},
		"marked, running": {has(corev1.DisruptionTarget, corev1.ConditionTrue), false},
		"another":         {func(p *corev1.Pod) { p.UID = "other" }, true},
	} {
		changed := base()
		c.change(changed)
		if got := matters(base(), changed); got != c.want {
			t.Errorf("%s: matters %t, want %t", name, got, c.want)
		}
	}
	failed := podWith("p", ended(1, 0), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }).DeepCopy
	marked := failed()
	has(corev1.DisruptionTarget, corev1.ConditionTrue)(marked)
	timed := marked.DeepCopy()
	timed.Status.Conditions[len(timed.Status.Conditions)-1].LastProbeTime = metav1.NewTime(now)
	if !matters(failed(), marked) || matters(marked, timed) {
		t.Error("a failed pod matters when it is marked, and only then")
	}
	coded, still := failed(), failed()
	ended(2, 0)(coded)
	still.Status.ContainerStatuses[0].State.Terminated.Message = "more"
	if !matters(failed(), coded) || matters(failed(), still) {
		t.Error("a failed pod matters when its exit code changes, and only then")
	}
	job := func(opts ...jobOption) *batchv1.Job { return newJob("j", opts...) }
	gone := job(func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: now} })
	for name, c := range map[string]struct {
		old, job *batchv1.Job
		want     bool
	}{
		"new": {nil, job(), true}, "gone": {job(), nil, true}, "same": {job(), job(), false}, "being deleted": {job(), gone, true},
		"its spec":   {job(), job(func(j *batchv1.Job) { j.Generation++ }), true},
		"its status": {job(), job(func(j *batchv1.Job) { j.Status.Active++ }), false},
	} {
		if got := urgent(c.old, c.job); got != c.want || statusOnly(c.old, c.job) == c.want {
			t.Errorf("%s: urgent %t, want %t", name, got, c.want)
		}
	}
}

func TestAJobIsOverOnceNothingIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*batchv1.JobStatus)
		e      ending
		over   bool
	}{
		"nothing is left":        {func(*batchv1.JobStatus) {}, completed(), true},
		"nothing is decided":     {func(*batchv1.JobStatus) {}, ending{}, false},
		"a pod is active":        {func(s *batchv1.JobStatus) { s.Active = 1 }, completed(), false},
		"a pod is being deleted": {func(s *batchv1.JobStatus) { s.Terminating = new(int32(1)) }, completed(), false},
		"a success is uncounted": {func(s *batchv1.JobStatus) {
			s.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a"}}
		}, completed(), false},
		"a failure is uncounted": {func(s *batchv1.JobStatus) {
			s.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Failed: []types.UID{"a"}}
		}, fails("x", "y"), false},
	} {
		s := batchv1.JobStatus{StartTime: &metav1.Time{Time: now.Add(time.Minute)}} // the clock has been set back since
		c.change(&s)
		if got := finish(&s, c.e, now); got != c.over {
			t.Errorf("%s: over %t, want %t", name, got, c.over)
		}
		if c.over && (len(s.Conditions) != 1 || s.CompletionTime == nil || s.CompletionTime.Before(s.StartTime)) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestALookAtABigJobCostsNoMoreThanItsActivePods(t *testing.T) {
	var active []*corev1.Pod
	for i := range 50 {
		active = append(active, podWith(fmt.Sprint(i), at(50+i), runs))
	}
	cost := func(completions int32, done string) float64 {
		job := newJob("j", of(60, completions), withIndexes, func(j *batchv1.Job) { j.Status.CompletedIndexes = done })
		return testing.AllocsPerRun(10, func() {
			v := survey(job, active, now)
			e := endingOf(v)
			c := change{created: len(planOf(v, e, history{}).create)}
			s, _ := statusOf(v, e, c, true)
			if take(v, e, c, &s).more || s.Active != 60 {
				t.Errorf("active %d", s.Active)
			}
		})
	}
	small, big := cost(200, "0-40"), cost(1000000, "0-40,100-900000")
	if big > 1.2*small {
		t.Errorf("%v allocations for a Job of 200 completions, %v for one of a million", small, big)
	}
}
