package replicaset

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	compmetrics "k8s.io/component-base/metrics"

	"orrery/kit/kittest"
)

func TestCreatedPodsFollowTheTemplate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newSet("web", 2)
		rs.Spec.Template.Annotations = map[string]string{"note": "x"}
		rs.Spec.Template.Finalizers = []string{"example.com/hold"}
		api := start(t, rs)
		for _, p := range pods(t, api) {
			ref := metav1.GetControllerOf(p)
			if p.GenerateName != "web-" || p.Annotations["note"] != "x" || p.Labels["tier"] != "front" || p.Spec.Containers[0].Image != "img" ||
				!slices.Equal(p.Finalizers, []string{"example.com/hold"}) || ref == nil || ref.APIVersion != "apps/v1" || ref.Kind != "ReplicaSet" ||
				ref.Name != "web" || ref.UID != rs.UID || !*ref.BlockOwnerDeletion {
				t.Errorf("pod %+v", p)
			}
		}
		want := []string{"Normal SuccessfulCreate ReplicaSet default/web: Created pod: " + pods(t, api)[0].Name, "Normal SuccessfulCreate ReplicaSet default/web: Created pod: " + pods(t, api)[1].Name}
		var got []string
		for _, e := range api.Events() {
			got = append(got, e.String())
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}

// The number of pods never exceeds the desired number, however many bursts it takes to get there.
func TestLargeSetsScaleInBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newSet("web", 1200))
		api.Run(t, Descriptor())
		api.Settle()
		if got := len(pods(t, api)); got != 1200 || count(api.Writes(), "create v1/pods") != 1200 {
			t.Fatalf("%d pods, want 1200", got)
		}
		if n := count(api.TakeWrites(), "update apps/v1/replicasets/status"); n > 8 {
			t.Errorf("the status was written %d times on the way up", n)
		}
		scale(t, api, "web", 0)
		api.Settle()
		if got := len(pods(t, api)); got != 0 || count(api.TakeWrites(), "delete v1/pods") != 1200 {
			t.Errorf("%d pods are left", got)
		}
		if s := get(t, api, "web").Status; s.Replicas != 0 || s.ObservedGeneration != 2 {
			t.Errorf("status %+v", s)
		}
	})
}

// TestAStopIsNoFailure: calls that are not made because the process is stopping are not reported as failures.
func TestAStopIsNoFailure(t *testing.T) {
	for _, size := range []int32{400, 0} {
		synctest.Test(t, func(t *testing.T) {
			api := kittest.New(t, newSet("web", 400-size))
			running := api.Run(t, Descriptor())
			api.Settle()
			api.React(func(r *kittest.Request) *kittest.Reaction {
				if r.Resource.Resource == "pods" {
					time.Sleep(100 * time.Millisecond)
				}
				return nil
			})
			scale(t, api, "web", size)
			time.Sleep(350 * time.Millisecond)
			running.Stop()
			if n := len(pods(t, api)); n == 0 || n == 400 {
				t.Fatalf("%d pods: not stopped half-way", n)
			}
			if s := get(t, api, "web").Status; len(s.Conditions) > 0 {
				t.Errorf("on the way to %d: conditions %+v", size, s.Conditions)
			}
		})
	}
}

// The cache must show a burst before the next one is begun.
func TestABurstWaitsForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newSet("web", 0))
		for _, step := range []struct{ want, halfway int }{{600, 500}, {0, 100}} {
			api.FreezeWatch(podKind, true)
			scale(t, api, "web", int32(step.want))
			api.Settle()
			if got := len(pods(t, api)); got != step.halfway {
				t.Errorf("on the way to %d, unseen: %d pods, want %d", step.want, got, step.halfway)
			}
			api.FreezeWatch(podKind, false)
			api.Settle()
			if got := len(pods(t, api)); got != step.want {
				t.Errorf("%d pods, want %d", got, step.want)
			}
		}
	})
}

func TestATerminatingNamespaceEndsItQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newSet("web", 0)
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}}}
		api := start(t, ns, rs)
		api.Delete(t, ns)
		creates := countCalls(api, "create", "pods")
		scale(t, api, "web", 100)
		time.Sleep(time.Minute)
		// One attempt for the change of replicas and one for the status that tells of it.
		if creates.of("") > 2 || len(pods(t, api)) != 0 || len(api.Events()) != 0 {
			t.Errorf("%d attempts, %d pods, events %v", creates.of(""), len(pods(t, api)), api.Events())
		}
		if c := get(t, api, "web").Status.Conditions; len(c) != 0 {
			t.Errorf("conditions %+v", c)
		}
	})
}

func TestADeletionThatFailsIsReportedAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newSet("web", 3))
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "delete" {
				return kittest.Refuse(http.StatusForbidden, "not today")
			}
			return nil
		})
		scale(t, api, "web", 1)
		time.Sleep(10 * time.Second)
		c := get(t, api, "web").Status.Conditions
		if len(c) != 1 || c[0].Reason != "FailedDelete" || c[0].Message != "unable to delete pods: not today" {
			t.Errorf("conditions %+v", c)
		}
		if e := events(api, "FailedDelete"); len(e) == 0 || e[0].Type != corev1.EventTypeWarning || e[0].Message != "Error deleting: not today" {
			t.Errorf("events %v", e)
		}
		api.Unreact()
		time.Sleep(3 * time.Minute)
		if s := get(t, api, "web").Status; s.Replicas != 1 || len(s.Conditions) != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// Deleting a pod that no longer exists is no failure.
func TestAPodThatIsGoneNeedsNoDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newSet("web", 2))
		api.FreezeWatch(podKind, true)
		for _, p := range pods(t, api) {
			api.Remove(t, p)
		}
		scale(t, api, "web", 0)
		time.Sleep(time.Second)
		if e := events(api, "FailedDelete"); len(e) != 0 || len(get(t, api, "web").Status.Conditions) != 0 {
			t.Errorf("events %v, conditions %v", e, get(t, api, "web").Status.Conditions)
		}
		api.FreezeWatch(podKind, false)
		api.Settle()
		if s := get(t, api, "web").Status; s.Replicas != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestAvailabilityComesOnTimeWithoutPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newSet("web", 2, minReady(10)))
		all := pods(t, api)
		changePod(t, api, all[0], ready(time.Now()))
		time.Sleep(4 * time.Second)
		changePod(t, api, all[1], ready(time.Now()))
		time.Sleep(time.Second)
		api.TakeWrites()
		if s := get(t, api, "web").Status; s.ReadyReplicas != 2 || s.AvailableReplicas != 0 {
			t.Errorf("after 5s: %+v", s)
		}
		time.Sleep(5100 * time.Millisecond)
		if s := get(t, api, "web").Status; s.AvailableReplicas != 1 {
			t.Errorf("after 10.1s: %+v", s)
		}
		time.Sleep(4 * time.Second)
		if s := get(t, api, "web").Status; s.AvailableReplicas != 2 {
			t.Errorf("after 14.1s: %+v", s)
		}
		time.Sleep(time.Hour)
		api.Expect(t, "update apps/v1/replicasets/status default/web", "update apps/v1/replicasets/status default/web")
	})
}

func TestAvailabilityComesOnTimeWhilePodsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newSet("web", 1, minReady(10)))
		refused := 0
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" && r.Resource.Resource == "pods" {
				refused++
				return kittest.Refuse(403, "exceeded quota")
			}
			return nil
		})
		scale(t, api, "web", 2)
		api.Pass(2 * time.Minute) // the set is tried again once a minute
		changePod(t, api, pods(t, api)[0], ready(time.Now()))
		api.Pass(10500 * time.Millisecond)
		if s := get(t, api, "web").Status; s.AvailableReplicas != 1 {
			t.Errorf("after 10.5s: %+v", s)
		}
		if refused > 25 {
			t.Errorf("%d pods were refused", refused)
		}
	})
}

func TestTerminatingPodsAreReplacedAndCounted(t *testing.T) {
	for gate, want := range map[bool]*int32{true: new(int32(1)), false: nil} {
		synctest.Test(t, func(t *testing.T) {
			api := kittest.New(t, newSet("web", 2))
			api.SetGate("DeploymentReplicaSetTerminatingReplicas", gate)
			api.Run(t, Descriptor())
			api.Settle()
			p := pods(t, api)[0]
			changePod(t, api, p, ready(time.Now()))
			api.Delete(t, p)
			api.Settle()
			s := get(t, api, "web").Status
			if len(pods(t, api)) != 3 || s.Replicas != 2 || (s.TerminatingReplicas == nil) != (want == nil) || want != nil && *s.TerminatingReplicas != *want {
				t.Errorf("gate %v: %d pods, status %+v", gate, len(pods(t, api)), s)
			}
			api.Remove(t, p)
			api.Settle()
			if s := get(t, api, "web").Status; want != nil && *s.TerminatingReplicas != 0 {
				t.Errorf("still %d terminating", *s.TerminatingReplicas)
			}
		})
	}
}

// Deletion costs count only with their gate.
func TestDeletionCostFollowsItsGate(t *testing.T) {
	for gate, want := range map[bool]string{true: "cheap", false: "young"} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(300 * time.Hour)
			rs := newSet("web", 2)
			api := kittest.New(t, rs)
			api.SetGate("PodDeletionCost", gate)
			for name, age := range map[string]time.Duration{"cheap": 200 * time.Hour, "young": time.Minute} {
				p := orphan(name, rs.Spec.Template.Labels)
				p.CreationTimestamp = metav1.NewTime(time.Now().Add(-age))
				ready(time.Now().Add(-age))(p)
				p.Spec.NodeName = name
				p.Annotations = map[string]string{corev1.PodDeletionCost: map[string]string{"cheap": "-1", "young": "1"}[name]}
				api.Create(t, p)
			}
			api.Run(t, Descriptor())
			api.Settle()
			scale(t, api, "web", 1)
			api.Settle()
			if count(api.Writes(), "delete v1/pods default/"+want) != 1 {
				t.Errorf("gate %v: %v, want %s deleted", gate, api.Writes(), want)
			}
		})
	}
}

func TestNothingIsWrittenForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newSet("web", 2))
		api.TakeWrites()
		changePod(t, api, pods(t, api)[0], func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} })
		rs := get(t, api, "web")
		rs.Annotations = map[string]string{"a": "b"}
		api.Update(t, rs)
		api.Run(t, Descriptor()) // as after a restart
		api.Settle()
		api.Expect(t)
		// A change of the status by somebody else is corrected.
		rs = get(t, api, "web")
		rs.Status.Replicas = 7
		api.Update(t, rs)
		api.Settle()
		if s := get(t, api, "web").Status; s.Replicas != 2 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		api := kittest.New(t)
		registry := compmetrics.NewKubeRegistry()
		cc := api.Context(Name, Descriptor().RBAC...)
		cc.Register = registry.MustRegister
		api.RunIn(t, cc, Descriptor().Init)
		if got := text(t, registry); !strings.Contains(got, `replicaset_controller_stale_sync_skips_total{group="",resource="pods"} 0`) ||
			!strings.Contains(got, `replicaset_controller_stale_sync_skips_total{group="apps",resource="replicasets"} 0`) {
			t.Errorf("before anything happened: %s", got)
		}
		api.Create(t, newSet("web", 3))
		api.Settle()
		for _, p := range pods(t, api) {
			changePod(t, api, p, ready(time.Now()))
		}
		api.DelayWatch(podKind, time.Second)
		time.Sleep(time.Minute)
		scale(t, api, "web", 2)
		api.Settle()
		time.Sleep(time.Minute)
		got := text(t, registry)
		if !strings.Contains(got, "replicaset_controller_sorting_deletion_age_ratio_count 1") || strings.Contains(got, `resource="pods"} 0`) {
			t.Errorf("after a deletion that the cache showed late: %s", got)
		}
	})
}

// text returns the metrics as a scrape shows them.
func text(t *testing.T, registry compmetrics.KubeRegistry) string {
	t.Helper()
	w := httptest.NewRecorder()
	compmetrics.HandlerFor(registry, compmetrics.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return w.Body.String()
}
