package statefulset

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	compmetrics "k8s.io/component-base/metrics"

	"orrery/controllers/internal/history"
	"orrery/kit/kittest"
)

// settled stores a set with its pods and a revision of the given data as another manager has left them.
func settled(c *cluster, set *appsv1.StatefulSet, data []byte) {
	c.t.Helper()
	c.Create(c.t, set)
	yes := true
	owner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name, UID: set.UID, Controller: &yes, BlockOwnerDeletion: &yes}}
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: set.Name + "-before", Labels: map[string]string{"app": set.Name}, OwnerReferences: owner},
		Revision:   1, Data: runtime.RawExtension{Raw: data},
	}
	c.Create(c.t, revision)
	n := *set.Spec.Replicas
	for ordinal := range int(n) {
		pod := newPod(set, &set.Spec.Template, revision.Name, ordinal)
		pod.Spec.NodeName = "node"
		makeReady(pod)
		c.Create(c.t, pod)
	}
	set.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: 1, Replicas: n, ReadyReplicas: n, AvailableReplicas: n, CurrentReplicas: n, UpdatedReplicas: n,
		CurrentRevision: revision.Name, UpdateRevision: revision.Name, CollisionCount: new(int32),
	}
	c.Update(c.t, set)
}

func dataOf(t *testing.T, set *appsv1.StatefulSet) []byte {
	t.Helper()
	data, err := history.Encode(&set.Spec.Template)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// kubernetes/kubernetes#134773: 1.33 wrote creationTimestamp null where 1.34 wrote nothing.
func TestAnUpgradeTouchesNothing(t *testing.T) {
	for name, rewrite := range map[string]func([]byte) []byte{
		"as it is": func(b []byte) []byte { return b },
		"with a null": func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"metadata":{`), []byte(`"metadata":{"creationTimestamp":null,`), 1)
		},
		"with a default that did not exist": func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"terminationMessagePolicy":"File"`), []byte(`"args":null`), 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				set := newSet("web", 3)
				set.Spec.Template.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageReadFile
				settled(c, set, rewrite(dataOf(t, set)))
				c.Run(t, Descriptor())
				c.Pass(time.Hour)
				if writes := c.Writes(); len(writes) > 0 || len(c.Events()) > 0 {
					t.Errorf("it did %v", writes)
				}
				// And what it finds again is the revision to roll back to.
				c.Run(t, c.kubelets.init)
				c.change("web", image("img:2"))
				c.Pass(time.Minute)
				c.change("web", image("img:1"))
				c.Pass(time.Minute)
				revs := c.revisions()
				if len(revs) != 2 || revs[1].Name != "web-before" || revs[1].Revision != 3 || c.set("web").Status.CurrentRevision != "web-before" {
					t.Errorf("revisions after a rollback: %v", revs)
				}
			})
		})
	}
}

func TestRevisionsOfAFormerSetAreAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		set := newSet("web", 2)
		settled(c, set, dataOf(t, set))
		// Deleted without its dependents, and made again.
		for _, pod := range []string{"web-0", "web-1"} {
			c.changePod(pod, func(p *corev1.Pod) { p.OwnerReferences = nil })
		}
		revision := c.revisions()[0]
		revision.OwnerReferences = nil
		c.Update(t, revision)
		c.Remove(t, set)
		c.Create(t, newSet("web", 2))
		c.Run(t, c.kubelets.init)
		c.Run(t, Descriptor())
		c.Pass(time.Minute)
		if got := c.podWrites(); strings.Contains(got, "create") || strings.Contains(got, "delete") || len(c.revisions()) != 1 {
			t.Errorf("it did %s, and has %d revisions", got, len(c.revisions()))
		}
		if s := c.set("web").Status; s.CurrentRevision != "web-before" || c.numbers("web") != [5]int32{2, 2, 2, 2, 2} {
			t.Errorf("status %+v", s)
		}
	})
}

func TestACollisionOfNamesIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newSet("web", 1)
		name := history.StatefulSets().New(set, &set.Spec.Template, dataOf(t, set), 1, new(int32)).Name
		c := start(t, set, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: runtime.RawExtension{Raw: []byte(`{}`)}})
		s := c.set("web").Status
		if *s.CollisionCount != 1 || s.CurrentRevision == name || c.pods() != "web-0" || revisionOf(c.pod("web-0")) != s.CurrentRevision {
			t.Errorf("status %+v", s)
		}
	})
}

func TestALaggingWatchCausesNoSecondWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 1, parallel, storing("data")))
		c.TakeWrites()
		for _, kind := range watched() {
			c.DelayWatch(kind, 5*time.Second)
		}
		c.change("web", replicas(10))
		c.Pass(7 * time.Second)
		c.change("web", minReady(1))
		c.Pass(2 * time.Minute)
		seen := map[string]int{}
		for _, w := range c.TakeWrites() {
			if strings.HasPrefix(w, "create") || strings.HasPrefix(w, "delete") {
				seen[w]++
			}
		}
		if len(seen) != 18 {
			t.Errorf("%d creations and deletions, want 9 pods and 9 claims", len(seen))
		}
		for w, n := range seen {
			if n != 1 {
				t.Errorf("%d times %s", n, w)
			}
		}
		if got := c.events("FailedCreate"); len(got) > 0 {
			t.Errorf("events %q", got)
		}
	})
}

func TestARefusedPodIsToldAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newSet("web", 2))
		c.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" && r.Resource.Resource == "pods" {
				return kittest.Refuse(http.StatusForbidden, "pods is forbidden: exceeded quota")
			}
			return nil
		})
		c.Run(t, c.kubelets.init)
		c.Run(t, Descriptor())
		c.Pass(time.Minute)
		want := "Create Pod web-0 in StatefulSet web failed error: pods is forbidden: exceeded quota"
		if got := c.events("FailedCreate"); len(got) == 0 || len(got) > 20 || got[0] != want {
			t.Errorf("%d events, %q", len(got), got)
		}
		if s := c.set("web").Status; s.ObservedGeneration != 1 || s.UpdateRevision == "" || s.Replicas != 0 {
			t.Errorf("the status is told all the same: %+v", s)
		}
		c.Unreact()
		c.React(c.kubelets.schedule)
		c.Pass(10 * time.Minute)
		if got := c.pods(); got != "web-0 web-1" {
			t.Errorf("pods %s", got)
		}
	})
}

// kubernetes/kubernetes#138451
func TestMetricsAreThereFromTheStartAndGoWithTheirSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := compmetrics.NewKubeRegistry()
		c := newCluster(t, newSet("web", 4, rolling("50%", 0)))
		cc := c.Context(Name, Descriptor().RBAC...)
		cc.Register = registry.MustRegister
		c.kubelets.hold(true)
		c.Run(t, c.kubelets.init)
		c.RunIn(t, cc, Descriptor().Init)
		c.Pass(time.Minute)
		check := func(when string, want map[string]int) {
			t.Helper()
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			for _, f := range families {
				for _, m := range f.Metric {
					var labels []string
					for _, l := range m.Label {
						labels = append(labels, l.GetName()+"="+l.GetValue())
					}
					got[f.GetName()+" "+strings.Join(labels, ",")] = int(m.GetGauge().GetValue() + m.GetCounter().GetValue())
				}
			}
			for name, value := range want {
				if v, ok := got[name]; value >= 0 && (!ok || v != value) || value < 0 && ok {
					t.Errorf("%s: %s is %d (%v), want %d", when, name, v, ok, value)
				}
			}
		}
		const labels = " pod_management_policy=OrderedReady,statefulset_name=web,statefulset_namespace=default"
		const limit, away = "statefulset_controller_statefulset_max_unavailable" + labels, "statefulset_controller_statefulset_unavailable_replicas" + labels
		skips := "statefulset_controller_stale_sync_skips_total group=%s,resource=%s"
		check("at first", map[string]int{limit: 2, away: 4, fmt.Sprintf(skips, "", "persistentvolumeclaims"): 0}) // there is none to wait for
		c.Remove(t, c.set("web"))
		c.Pass(time.Minute)
		check("in the end", map[string]int{limit: -1, away: -1, fmt.Sprintf(skips, "", "persistentvolumeclaims"): 0})
	})
}

func TestAHugeSetIsMadeInSteps(t *testing.T) {
	s := stateOf(t, "", parallel)
	s.end = 1 << 31
	p := s.plan()
	if len(p.tasks) != burst || p.tasks[0].ordinal != 0 || p.tasks[burst-1].ordinal != burst-1 {
		t.Errorf("%d tasks", len(p.tasks))
	}
}
