package replicaset

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

func TestOrphansAreAdoptedBeforePodsAreCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finished := orphan("finished", map[string]string{"app": "web"})
		finished.Status.Phase = corev1.PodSucceeded
		foreign := orphan("foreign", map[string]string{"app": "web"})
		yes := true
		foreign.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Other", Name: "o", UID: "o", Controller: &yes}}
		elsewhere := orphan("elsewhere", map[string]string{"app": "web"})
		elsewhere.Namespace = "other"
		api := start(t, newSet("web", 2), orphan("stray", map[string]string{"app": "web"}), orphan("unlike", map[string]string{"app": "db"}),
			finished, foreign, elsewhere)
		owners := map[string]string{}
		for _, p := range pods(t, api) {
			owners[p.Name] = ownerOf(p)
		}
		if owners["stray"] != "ReplicaSet web" || owners["unlike"] != "" || owners["finished"] != "" || owners["foreign"] != "Other o" || owners["elsewhere"] != "" {
			t.Errorf("owners %v", owners)
		}
		if n := count(api.TakeWrites(), "create v1/pods"); n != 1 {
			t.Errorf("%d pods were created, want 1 beside the adopted one", n)
		}
		if s := get(t, api, "web").Status; s.Replicas != 2 || s.FullyLabeledReplicas != 1 {
			t.Errorf("status %+v, want 2 replicas, one of which lacks a label of the template", s)
		}
	})
}

func TestLabelsDecideWhoseAPodIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newSet("web", 1))
		first := pods(t, api)[0]
		changePod(t, api, first, func(p *corev1.Pod) { p.Labels["app"] = "debug" })
		api.Settle()
		all := pods(t, api)
		if len(all) != 2 || !api.Get(t, first) || ownerOf(first) != "" {
			t.Fatalf("released: %v, owner %q of the first", names(all), ownerOf(first))
		}
		// After it is adopted again there is one pod too many. Neither is running: the younger is deleted.
		api.TakeWrites()
		changePod(t, api, first, func(p *corev1.Pod) { p.Labels["app"] = "web" })
		api.Settle()
		writes := api.TakeWrites()
		if count(writes, "patch v1/pods default/"+first.Name) != 1 || count(writes, "delete v1/pods") != 1 || len(pods(t, api)) != 1 {
			t.Errorf("taken back: %v", writes)
		}
	})
}

func TestAPodThatCannotBeReleasedIsReplacedAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newSet("web", 1))
		first := pods(t, api)[0]
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "patch" && r.Name == first.Name {
				return kittest.Refuse(403, "denied by a policy")
			}
			return nil
		})
		changePod(t, api, first, func(p *corev1.Pod) { p.Labels["app"] = "debug" })
		api.Pass(time.Minute)
		if len(pods(t, api)) != 2 || get(t, api, "web").Status.Replicas != 1 {
			t.Errorf("%d pods, status %+v", len(pods(t, api)), get(t, api, "web").Status)
		}
		api.Unreact()
		api.Pass(20 * time.Minute)
		if !api.Get(t, first) || ownerOf(first) != "" || len(pods(t, api)) != 2 {
			t.Errorf("owner %q, %d pods after the policy was changed", ownerOf(first), len(pods(t, api)))
		}
	})
}

func TestAPodWithoutItsReferenceIsAdoptedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newSet("web", 2))
		p := pods(t, api)[0]
		changePod(t, api, p, func(p *corev1.Pod) { p.OwnerReferences = nil })
		api.Settle()
		if !api.Get(t, p) || ownerOf(p) != "ReplicaSet web" || len(pods(t, api)) != 2 {
			t.Errorf("owner %q, %d pods", ownerOf(p), len(pods(t, api)))
		}
	})
}

// An orphan that appears wakes every set that selects it, by labels or by expressions, and exactly one gets it.
func TestAnOrphanWakesAllSetsThatMatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := newSet("a", 0), newSet("b", 0), newSet("c", 0)
		a.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": "x", "app": "z"}}
		b.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "role", Operator: metav1.LabelSelectorOpExists}}}
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": "other"}}
		api := start(t, a, b, c)
		reads := countCalls(api, "get", "replicasets")
		var looked atomic.Bool // nobody gets it before both have
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if !looked.Load() && r.Verb == "patch" && r.Resource.Resource == "pods" {
				return kittest.Refuse(http.StatusInternalServerError, "not yet")
			}
			return nil
		})
		api.Create(t, orphan("stray", map[string]string{"role": "x", "app": "z"}))
		api.Settle()
		looked.Store(true)
		api.Pass(time.Minute)
		if reads.of("a") == 0 || reads.of("b") == 0 || reads.of("c") != 0 {
			t.Errorf("a looked %d times before adopting, b %d times, c %d times; want a and b to", reads.of("a"), reads.of("b"), reads.of("c"))
		}
		// The set that adopted it has one too many and deletes it.
		if len(pods(t, api)) != 0 || count(api.Writes(), "delete v1/pods default/stray") != 1 {
			t.Errorf("writes %v", api.Writes())
		}
	})
}

func TestNoAdoptionByASetThatIsGoingOrReplaced(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, api *kittest.API){
		"being deleted": func(t *testing.T, api *kittest.API) {
			api.DeleteWith(t, get(t, api, "web"), metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
		},
		"gone": func(t *testing.T, api *kittest.API) { api.Remove(t, get(t, api, "web")) },
		"replaced": func(t *testing.T, api *kittest.API) {
			api.Remove(t, get(t, api, "web"))
			api.Create(t, newSet("web", 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := start(t, newSet("web", 0))
				api.TakeWrites()
				api.FreezeWatch(setKind, true) // the cache still shows the set as it was
				change(t, api)
				stray := orphan("stray", map[string]string{"app": "web"})
				api.Create(t, stray)
				api.Settle()
				if api.Get(t, stray); ownerOf(stray) != "" || slices.ContainsFunc(api.Writes(), func(w string) bool { return w != "" }) {
					t.Errorf("owner %q after %v", ownerOf(stray), api.Writes())
				}
			})
		})
	}
}

func TestADeletedSetCreatesNothingAndStillReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newSet("web", 3))
		rs := get(t, api, "web")
		rs.Finalizers = []string{"example.com/hold"}
		api.Update(t, rs)
		api.Delete(t, rs)
		api.Settle()
		api.TakeWrites()
		victim := pods(t, api)[0]
		api.Remove(t, victim)
		changePod(t, api, pods(t, api)[0], func(p *corev1.Pod) { p.Labels["app"] = "debug" })
		api.Create(t, orphan("stray", map[string]string{"app": "web"}))
		api.Settle()
		for _, w := range api.TakeWrites() {
			if w != "update apps/v1/replicasets/status default/web" {
				t.Errorf("a set that is being deleted made %q", w)
			}
		}
		if s := get(t, api, "web").Status; s.Replicas != 1 {
			t.Errorf("status %+v, want the one pod that is left and matches", s)
		}
	})
}
