package job

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	compmetrics "k8s.io/component-base/metrics"

	"orrery/kit/kittest"
)

func TestAnIndexedPodKnowsItsIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := corev1.EnvVar{Name: indexVariable, Value: "mine"}
		api := start(t, newJob("j", of(2, 2), withIndexes, func(j *batchv1.Job) {
			s := &j.Spec.Template.Spec
			s.InitContainers = []corev1.Container{{Name: "i"}}
			s.Containers = append(s.Containers, corev1.Container{Name: "d", Env: []corev1.EnvVar{own}})
			s.Hostname = "overridden"
			j.Spec.Template.Annotations = map[string]string{"a": "b"}
			j.Spec.Template.Finalizers = []string{"example.com/f"}
		}))
		p := podOf(t, api, 1)
		if p.Labels[batchv1.JobCompletionIndexAnnotation] != "1" || p.Labels["controller-uid"] != "j" || p.Annotations["a"] != "b" ||
			p.Spec.Hostname != "j-1" || p.GenerateName != "j-1-" || !slices.Equal(p.Finalizers, []string{"example.com/f", batchv1.JobTrackingFinalizer}) {
			t.Errorf("pod %+v, hostname %s", p.ObjectMeta, p.Spec.Hostname)
		}
		if ref := metav1.GetControllerOf(p); ref == nil || ref.Name != "j" || !*ref.BlockOwnerDeletion || ref.Kind != "Job" {
			t.Errorf("owner %v", ref)
		}
		for _, c := range []corev1.Container{p.Spec.InitContainers[0], p.Spec.Containers[0]} {
			if len(c.Env) != 1 || c.Env[0].Name != "JOB_COMPLETION_INDEX" || c.Env[0].ValueFrom.FieldRef.FieldPath != "metadata.labels['batch.kubernetes.io/job-completion-index']" {
				t.Errorf("container %s: %+v", c.Name, c.Env)
			}
		}
		if env := p.Spec.Containers[1].Env; len(env) != 1 || env[0].Value != "mine" {
			t.Errorf("a variable of that name was overwritten: %v", env)
		}
		if _, ok := p.Annotations[batchv1.JobIndexFailureCountAnnotation]; ok {
			t.Error("a failure count without limits per index")
		}
	})
}

func TestIgnoredFailuresOfAnIndexAreCarriedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(1, 1), withIndexes, limitEach(1), policy(on(batchv1.PodFailurePolicyActionIgnore, 7))))
		for i, code := range []int32{7, 1} {
			changePod(t, api, podOf(t, api, 0), exits(code))
			api.Pass([]time.Duration{11 * time.Second, 21 * time.Second}[i])
		}
		a := podOf(t, api, 0).Annotations
		if a[batchv1.JobIndexFailureCountAnnotation] != "1" || a[batchv1.JobIndexIgnoredFailureCountAnnotation] != "1" {
			t.Errorf("annotations %v", a)
		}
		settled(api)
		expect(t, api, "j", "active 1 ready 0 terminating 0 succeeded 0 failed 1 completed [] lost []")
	})
}

func TestAnElasticJobGrowsAndShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(3, 3), withIndexes))
		changePod(t, api, podOf(t, api, 2), exits(0))
		settled(api)
		edit(t, api, "j", of(5, 5))
		settled(api)
		if got := indexesOfActive(t, api); got != "0 1 3 4" {
			t.Errorf("indexes %s are active, want 0 1 3 4", got)
		}
		expect(t, api, "j", "active 4 ready 0 terminating 0 succeeded 1 failed 0 completed [2]")
		changePod(t, api, podOf(t, api, 4), exits(0))
		settled(api)
		edit(t, api, "j", of(2, 2))
		settled(api)
		if got := indexesOfActive(t, api); got != "0 1" {
			t.Errorf("indexes %s are active, want 0 1", got)
		}
		expect(t, api, "j", "active 2 ready 0 terminating 0 succeeded 0 failed 0 completed []")
		finishAll(t, api, 0)
		settled(api)
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 2 failed 0 completed [0,1]"+isComplete)
	})
}

func TestEnoughIndexesEndTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(4, 4), withIndexes, func(j *batchv1.Job) {
			j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: new("0,1"), SucceededCount: new(int32(1))}}}
		}))
		other := podOf(t, api, 3)
		changePod(t, api, other, runs)
		changePod(t, api, podOf(t, api, 1), exits(0))
		settled(api)
		expect(t, api, "j", "active 0 ready 0 terminating 1 succeeded 1 failed 0 completed [1] SuccessCriteriaMet=True:SuccessPolicy")
		api.Remove(t, other)
		settled(api)
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 1 failed 0 completed [1] SuccessCriteriaMet=True:SuccessPolicy Complete=True:SuccessPolicy")
	})
}

func TestThePolicyFailsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(2, 2), policy(on(batchv1.PodFailurePolicyActionFailJob, 42))))
		p := activePods(t, api)[0]
		changePod(t, api, p, exits(42))
		settled(api)
		message := "Container c for pod default/" + p.Name + " failed with exit code 42 matching FailJob rule at index 0"
		job := get(t, api, "j")
		for _, kind := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
			if c := isTrue(job, kind); c == nil || c.Message != message || c.Reason != "PodFailurePolicy" {
				t.Errorf("condition %s: %+v", kind, c)
			}
		}
		expectEvents(t, api, "Warning PodFailurePolicy: "+message)
	})
}

// TestAMarkThatComesAfterTheFailureFailsTheJob has one that comes when the pod has been counted.
func TestAMarkThatComesAfterTheFailureFailsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionFailJob, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
		}}
		api := start(t, newJob("j", of(2, 2), policy(rule)))
		p := activePods(t, api)[0]
		changePod(t, api, p, exits(1))
		api.Pass(time.Minute)
		expect(t, api, "j", "active 2 ready 0 terminating 0 succeeded 0 failed 1")
		changePod(t, api, p, has(corev1.DisruptionTarget, corev1.ConditionTrue))
		api.Pass(time.Minute)
		message := "Pod default/" + p.Name + " has condition DisruptionTarget matching FailJob rule at index 0"
		if c := isTrue(get(t, api, "j"), batchv1.JobFailed); c == nil || c.Message != message {
			t.Errorf("condition %+v", c)
		}
	})
}

func TestAnIgnoredFailureIsTriedAgainForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", limit(0), policy(on(batchv1.PodFailurePolicyActionIgnore, 7))))
		for _, delay := range []time.Duration{10, 20, 40} {
			finishAll(t, api, 7)
			api.Pass((delay - 1) * time.Second)
			if n := len(activePods(t, api)); n != 0 {
				t.Errorf("a pod came before %d s", delay)
			}
			api.Pass(3 * time.Second)
		}
		expect(t, api, "j", "active 1 ready 0 terminating 0 succeeded 0 failed 0")
		if n := len(trackedPods(t, api)); n != 1 {
			t.Errorf("%d pods have the finalizer, want the active one", n)
		}
	})
}

// A reason that is found must not get lost while pods cannot be deleted.
func TestTheEndIsDeclaredWhilePodsCannotBeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(2, 2), policy(on(batchv1.PodFailurePolicyActionFailJob, 1))))
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "delete" {
				return kittest.Refuse(http.StatusForbidden, "not today")
			}
			return nil
		})
		two := activePods(t, api)
		changePod(t, api, two[1], runs)
		changePod(t, api, two[0], exits(1))
		settled(api)
		expect(t, api, "j", "active 1 ready 1 terminating 0 succeeded 0 failed 1 FailureTarget=True:PodFailurePolicy")
		if api.Get(t, two[1]); !tracked(two[1]) {
			t.Error("a pod that still runs has been freed")
		}
		api.Remove(t, two[0])
		api.Unreact()
		api.Pass(2 * time.Minute)
		api.Remove(t, two[1])
		settled(api)
		expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 0 failed 2 FailureTarget=True:PodFailurePolicy Failed=True:PodFailurePolicy")
	})
}

func TestATerminatingNamespaceEndsItQuietly(t *testing.T) {
	for _, seen := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}}}
			api := start(t, ns, newJob("j", of(0, 100)))
			api.FreezeWatch(corev1.SchemeGroupVersion.WithKind("Namespace"), !seen)
			api.Delete(t, ns)
			api.Settle()
			tries := 0
			api.React(func(r *kittest.Request) *kittest.Reaction {
				if r.Verb == "create" {
					tries++
				}
				return nil
			})
			edit(t, api, "j", of(100, 100))
			api.Pass(time.Minute)
			if limit := map[bool]int{true: 0, false: 3}[seen]; tries > limit || len(api.Events()) != 0 {
				t.Errorf("%d attempts, want %d at most; events %v", tries, limit, api.Events())
			}
			expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 0 failed 0")
		})
	}
}

// The pods of a deleted namespace go before its Jobs, so that none of them may wait for anything but its Job's accounting.
func TestNoPodOfATerminatingNamespaceIsKeptForItsSuccessor(t *testing.T) {
	for _, name := range []string{"failed before", "failed after", "seen late"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failsFirst := name != "failed after"
				ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}}}
				api := start(t, ns, newJob("j", of(2, 2), withIndexes, limitEach(3)))
				failAll := func() {
					for _, p := range activePods(t, api) {
						changePod(t, api, p, exits(1))
					}
				}
				if failsFirst {
					failAll()
					api.Pass(3 * time.Second)
				}
				watched := corev1.SchemeGroupVersion.WithKind("Namespace")
				api.FreezeWatch(watched, name == "seen late")
				api.Delete(t, ns)
				api.Pass(3 * time.Second)
				if !failsFirst {
					failAll()
				}
				for _, p := range allPods(t, api) {
					api.Delete(t, p)
				}
				api.Pass(10 * time.Second)
				api.FreezeWatch(watched, false)
				api.Pass(10 * time.Second)
				expect(t, api, "j", "active 0 ready 0 terminating 0 succeeded 0 failed 2 completed [] lost []")
				if left := allPods(t, api); len(left) > 0 {
					t.Errorf("%d pods are left, the first with finalizers %v", len(left), left[0].Finalizers)
				}
			})
		})
	}
}

func TestABusyJobCostsFewWrites(t *testing.T) {
	for name, opts := range map[string][]jobOption{"plain": {of(10, 100)}, "indexed": {of(10, 100), withIndexes}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := start(t, newJob("j", opts...))
				began := time.Now()
				for !finished(get(t, api, "j")) {
					if active := activePods(t, api); len(active) > 0 { // ten each second
						changePod(t, api, active[0], exits(0))
					}
					api.Pass(100 * time.Millisecond)
					if time.Since(began) > time.Minute {
						t.Fatal("it does not end: ", summary(get(t, api, "j")))
					}
				}
				took := time.Since(began)
				writes := count(api.Writes(), statusWrites)
				t.Logf("%v, %d writes of the status", took, writes)
				if took > 14*time.Second || float64(writes) > 5*took.Seconds() {
					t.Errorf("100 pods took %v and %d writes of the status", took, writes)
				}
				if n := count(api.Writes(), "create v1/pods"); n != 100 {
					t.Errorf("%d pods were made", n)
				}
				if n := count(api.Writes(), "patch v1/pods"); n != 100 {
					t.Errorf("%d patches", n)
				}
			})
		})
	}
}

func TestReadinessAloneIsReportedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newJob("j", of(50, 50)))
		api.Pass(5 * time.Second)
		api.TakeWrites()
		for _, p := range activePods(t, api) {
			changePod(t, api, p, runs)
			api.Pass(100 * time.Millisecond)
		}
		settled(api)
		if n := count(api.Writes(), statusWrites); n < 4 || n > 7 {
			t.Errorf("%d writes in 5 seconds", n)
		}
		expect(t, api, "j", "active 50 ready 50 terminating 0 succeeded 0 failed 0")
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := strict(t, newJob("j", of(2, 2)), newJob("k", of(1, 1), withIndexes, limit(0)),
			newJob("l", limit(0), policy(on(batchv1.PodFailurePolicyActionFailJob, 1))),
			newJob("m", func(j *batchv1.Job) { j.Spec.ManagedBy = new("example.com/x") }))
		registry := compmetrics.NewKubeRegistry()
		cc := api.Context(Name, Descriptor().RBAC...)
		cc.Register = registry.MustRegister
		api.RunIn(t, cc, Descriptor().Init)
		api.Settle()
		api.DelayWatch(podKind, 500*time.Millisecond)
		for _, p := range activePods(t, api) {
			changePod(t, api, p, exits(map[string]int32{"j": 0, "k": 0, "l": 1}[p.Labels["job-name"]]))
		}
		api.Pass(time.Second)
		edit(t, api, "j", limit(9))
		settled(api)
		w := httptest.NewRecorder()
		compmetrics.HandlerFor(registry, compmetrics.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		text := w.Body.String()
		for _, want := range []string{
			`job_controller_jobs_finished_total{completion_mode="NonIndexed",reason="CompletionsReached",result="succeeded"} 1`,
			`job_controller_jobs_finished_total{completion_mode="Indexed",reason="CompletionsReached",result="succeeded"} 1`,
			`job_controller_jobs_finished_total{completion_mode="NonIndexed",reason="PodFailurePolicy",result="failed"} 1`,
			`job_controller_job_pods_finished_total{completion_mode="NonIndexed",result="succeeded"} 2`,
			`job_controller_job_pods_finished_total{completion_mode="Indexed",result="succeeded"} 1`,
			`job_controller_job_pods_finished_total{completion_mode="NonIndexed",result="failed"} 1`,
			`job_controller_pod_failures_handled_by_failure_policy_total{action="FailJob"} 1`,
			`job_controller_terminated_pods_tracking_finalizer_total{event="add"} 4`,
			`job_controller_terminated_pods_tracking_finalizer_total{event="delete"} 4`,
			`job_controller_job_finished_indexes_total{backoffLimit="global",status="succeeded"} 1`,
			`job_controller_job_pods_creation_total{reason="new",status="succeeded"} 4`,
			`job_controller_jobs_by_external_controller_total{controller_name="example.com/x"} 1`,
			`job_controller_job_syncs_total{action="pods_created",completion_mode="NonIndexed",result="success"} 2`,
			`job_controller_job_sync_duration_seconds_count{action="pods_created",completion_mode="Indexed",result="success"} 1`,
			`job_controller_stale_sync_skips_total{group="batch",resource="jobs"} 0`,
		} {
			if !strings.Contains(text, want+"\n") {
				t.Errorf("no %s", want)
			}
		}
		if t.Failed() {
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, "job_controller") && !strings.Contains(line, "bucket") {
					t.Log(strings.TrimSpace(line))
				}
			}
		}
	})
}

func TestActionsOfLooks(t *testing.T) {
	one, none := []*corev1.Pod{podWith("p")}, []*corev1.Pod(nil)
	declared := func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{condition(batchv1.JobFailureTarget, corev1.ConditionTrue, "Because", "of this", now)}
	}
	going := func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: now} }
	waiting := podWith("f", at(0), after(0), ended(1, time.Second))
	for name, c := range map[string]struct {
		opts []jobOption
		pods []*corev1.Pod
		want string
	}{
		"it starts":                    {nil, none, actionCreated},
		"it runs":                      {nil, one, actionTracking},
		"it completes":                 {nil, []*corev1.Pod{podWith("s", ended(0, 0))}, actionTracking},
		"it has failed":                {[]jobOption{declared}, one, actionReconciling},
		"too many pods":                {[]jobOption{of(0, 1)}, one, actionDeleted},
		"it is suspended":              {[]jobOption{suspend}, one, actionDeleted},
		"it is suspended without pods": {[]jobOption{suspend}, none, actionDeleted},
		"it is being deleted":          {[]jobOption{going}, one, actionReconciling},
		"it waits after a failure":     {[]jobOption{of(2, 2)}, []*corev1.Pod{podWith("f", ended(1, time.Second))}, actionCreated},
		"an index waits":               {[]jobOption{of(1, 1), withIndexes, limitEach(3)}, []*corev1.Pod{waiting}, actionCreated},
	} {
		v := survey(newJob("j", c.opts...), c.pods, now)
		e := endingOf(v)
		if got := actionOf(v, e, planOf(v, e, history{}.with(v.newSucceeded, v.newFailed))); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestALookThatIsPutOffIsNotCounted(t *testing.T) {
	m := newMetrics()
	registry := compmetrics.NewKubeRegistry()
	m.publish(func(c ...compmetrics.Registerable) { registry.MustRegister(c...) })
	m.looked(newJob("j"), actionNone, nil, time.Second)
	m.looked(newJob("j"), actionTracking, nil, time.Second)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0.0
	for _, f := range families {
		if f.GetName() == "job_controller_job_syncs_total" {
			for _, s := range f.GetMetric() {
				n += s.GetCounter().GetValue()
			}
		}
	}
	if n != 1 {
		t.Errorf("%v looks are counted, want 1", n)
	}
}

func TestFlagsAreValidated(t *testing.T) {
	if errs := (&options{workers: 0}).validate(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "--concurrent-job-syncs") {
		t.Errorf("errors = %v, want one that names the flag", errs)
	}
	if errs := (&options{workers: 1}).validate(); len(errs) != 0 {
		t.Errorf("errors = %v", errs)
	}
}
