package replicaset

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/client"
	"orrery/kit/kittest"
)

// Bugs that have occurred in practice, by their number in the Kubernetes issue tracker.

// quota rejects pods beyond a number, as the admission plugin does.
func quota(t *testing.T, api *kittest.API, limit int) {
	t.Helper()
	var made atomic.Int64 // counted as they are let in: of two that look at what is stored, both may find room for the last one
	api.React(func(r *kittest.Request) *kittest.Reaction {
		if r.Verb == "create" && r.Resource.Resource == "pods" && made.Add(1) > int64(limit) {
			return kittest.Refuse(http.StatusForbidden, "pods is forbidden: exceeded quota")
		}
		return nil
	})
}

// kubernetes/kubernetes#49145 and #22298
func TestAQuotaIsMetWithFewAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newSet("web", 500))
		creates := countCalls(api, "create", "pods")
		quota(t, api, 5)
		api.Run(t, Descriptor())
		time.Sleep(time.Minute)
		if got := len(pods(t, api)); got != 5 {
			t.Errorf("%d pods, want the 5 that the quota allows", got)
		}
		// Batches of 1, 2 and 4 make the 5 pods; then it is one attempt per back-off, which doubles from 5 ms.
		if failed := len(events(api, "FailedCreate")); failed < 5 || failed > 20 || creates.of("") > 25 {
			t.Errorf("%d attempts and %d events of failure in a minute", creates.of(""), failed)
		}
		rs := get(t, api, "web")
		if c := rs.Status.Conditions; len(c) != 1 || c[0].Type != appsv1.ReplicaSetReplicaFailure || c[0].Status != corev1.ConditionTrue ||
			c[0].Reason != "FailedCreate" || c[0].Message != "pods is forbidden: exceeded quota" || c[0].LastTransitionTime.IsZero() {
			t.Errorf("conditions %+v", c)
		}
		if rs.Status.Replicas != 5 || rs.Status.ObservedGeneration != rs.Generation {
			t.Errorf("status %+v", rs.Status)
		}
		if n := count(api.Writes(), "update apps/v1/replicasets/status"); n > 3 {
			t.Errorf("the status was written %d times", n)
		}

		api.Unreact()
		time.Sleep(3 * time.Minute) // the longest back-off
		if got := len(pods(t, api)); got != 500 {
			t.Errorf("%d pods after the quota is gone, want 500", got)
		}
		if rs := get(t, api, "web"); rs.Status.Replicas != 500 || len(rs.Status.Conditions) != 0 {
			t.Errorf("status %+v", rs.Status)
		}
	})
}

// kubernetes/kubernetes#67662
func TestACreateWithoutAnAnswerIsTriedAgainAndNotTwice(t *testing.T) {
	for name, reaction := range map[string]*kittest.Reaction{
		"stored":     {Drop: true},
		"not stored": {Err: errors.New("connection reset")},
		"timed out":  kittest.Refuse(http.StatusGatewayTimeout, "request timed out"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := kittest.New(t, newSet("web", 3))
				creates := newTally()
				api.React(func(r *kittest.Request) *kittest.Reaction {
					if len(pods(t, api)) > 3 {
						creates.add("too many")
					}
					if r.Verb == "create" && r.Resource.Resource == "pods" && creates.add("") == 2 {
						return reaction
					}
					return nil
				})
				api.Run(t, Descriptor())
				time.Sleep(30 * time.Second)
				if got := len(pods(t, api)); got != 3 || creates.of("too many") > 0 {
					t.Errorf("%d pods in the end, more than 3 at %d calls", got, creates.of("too many"))
				}
				if n := count(api.Writes(), "delete "); n != 0 {
					t.Errorf("%d pods were deleted again", n)
				}
				if rs := get(t, api, "web"); rs.Status.Replicas != 3 || len(rs.Status.Conditions) != 0 {
					t.Errorf("status %+v", rs.Status)
				}
			})
		})
	}
}

// kubernetes/kubernetes#111443 and kubernetes/website#26993
func TestPodsGoInTheDocumentedOrder(t *testing.T) {
	type set struct {
		name  string
		owner *metav1.OwnerReference
	}
	yes := true
	deployment := &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "d-uid", Controller: &yes}
	for _, s := range []set{{"of its own", nil}, {"of a Deployment", deployment}} {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(300 * time.Hour) // the bubble's clock begins at the first pod's birth otherwise
				rs := newSet("web", 6)
				if s.owner != nil {
					rs.OwnerReferences = []metav1.OwnerReference{*s.owner}
				}
				api := kittest.New(t, rs)
				for _, p := range rankedPods(rs) {
					api.Create(t, p)
				}
				api.Run(t, Descriptor())
				api.Settle()
				for left := int32(5); left >= 1; left-- {
					before := slices.DeleteFunc(pods(t, api), func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
					scale(t, api, "web", left)
					api.Settle()
					gone := slices.DeleteFunc(before, func(p *corev1.Pod) bool { return api.Get(t, p) && p.DeletionTimestamp == nil })
					if want := string('0' + rune(6-left)); len(gone) != 1 || !strings.HasPrefix(gone[0].Name, want) {
						t.Fatalf("scaling to %d deleted %v, want number %s", left, names(gone), want)
					}
				}
			})
		})
	}
}

// rankedPods returns six pods of a set, named in the order in which they should be deleted.
func rankedPods(rs *appsv1.ReplicaSet) []client.Object {
	var out []client.Object
	add := func(name, node, cost string, age time.Duration) {
		p := orphan(name, rs.Spec.Template.Labels)
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rs, setKind)}
		p.CreationTimestamp = metav1.NewTime(time.Now().Add(-age))
		if node != "" {
			ready(time.Now().Add(-age))(p)
			p.Spec.NodeName = node
		}
		if cost != "" {
			p.Annotations = map[string]string{corev1.PodDeletionCost: cost}
		}
		out = append(out, p)
	}
	add("1-pending", "", "", 200*time.Hour)
	add("2-cheap", "a", "-5", 200*time.Hour)
	add("3-beside-another-young", "b", "", 2*time.Hour)
	add("4-young", "c", "", time.Minute) // once 3 has gone, 5 is alone on its node
	add("5-beside-another-old", "b", "", 20*time.Hour)
	add("6-old", "d", "", 200*time.Hour)
	return out
}

func names(all []*corev1.Pod) []string {
	var out []string
	for _, p := range all {
		out = append(out, p.Name)
	}
	return out
}

// A pod beside one of the Deployment's other ReplicaSet is doubled up as well.
func TestPodsOfSiblingsCountAsDoubledUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(300 * time.Hour)
		yes := true
		owner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "d-uid", Controller: &yes}}
		web, other := newSet("web", 2), newSet("other", 1)
		web.OwnerReferences, other.OwnerReferences = owner, owner
		api := kittest.New(t, web, other)
		add := func(rs *appsv1.ReplicaSet, name, node string, age time.Duration) {
			p := orphan(name, rs.Spec.Template.Labels)
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rs, setKind)}
			p.CreationTimestamp = metav1.NewTime(time.Now().Add(-age))
			ready(time.Now().Add(-age))(p)
			p.Spec.NodeName = node
			api.Create(t, p)
		}
		add(web, "old-beside-the-sibling", "a", 200*time.Hour)
		add(web, "young-alone", "b", time.Minute)
		add(other, "sibling", "a", time.Hour)
		api.Run(t, Descriptor())
		api.Settle()
		scale(t, api, "web", 1)
		api.Settle()
		api.Expect(t, "update apps/v1/replicasets/status default/other", "update apps/v1/replicasets/status default/web",
			"delete v1/pods default/old-beside-the-sibling", "update apps/v1/replicasets/status default/web", "update apps/v1/replicasets/status default/web")
	})
}

// kubernetes/kubernetes#137212
func TestALaggingWatchCausesNoSecondCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newSet("web", 0))
		api.DelayWatch(podKind, 5*time.Second)
		scale(t, api, "web", 20)
		time.Sleep(2 * time.Second)
		rs := get(t, api, "web")
		rs.Annotations = map[string]string{"touched": "while the cache lags"}
		api.Update(t, rs)
		time.Sleep(30 * time.Second)
		if got := len(pods(t, api)); got != 20 {
			t.Errorf("%d pods, want 20", got)
		}
		if n := count(api.Writes(), "create v1/pods"); n != 20 {
			t.Errorf("%d pods were created, want 20", n)
		}
		if rs := get(t, api, "web"); rs.Status.Replicas != 20 {
			t.Errorf("status %+v", rs.Status)
		}
	})
}

func TestALaggingWatchCausesNoSecondDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newSet("web", 6))
		api.DelayWatch(podKind, 5*time.Second)
		scale(t, api, "web", 4)
		time.Sleep(2 * time.Second)
		rs := get(t, api, "web")
		rs.Annotations = map[string]string{"touched": "while the cache lags"}
		api.Update(t, rs)
		time.Sleep(30 * time.Second)
		if got, n := len(pods(t, api)), count(api.Writes(), "delete v1/pods"); got != 4 || n != 2 {
			t.Errorf("%d pods left after %d deletions, want 4 after 2", got, n)
		}
	})
}
