package namespace

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

// TestPodsThatCannotBeSeenAreNotGone: as long as it is not known that no pod runs, nothing goes that one may need, as the
// policies that fence it in.
func TestPodsThatCannotBeSeenAreNotGone(t *testing.T) {
	for _, verb := range []string{"list", "deletecollection"} {
		synctest.Test(t, func(t *testing.T) {
			held := pod("shop", "p", "n1")
			held.Finalizers = []string{"example.com/hold"}
			api := kittest.New(t, namespace("shop"), held, configMap("shop", "c"))
			broken := true // written while nothing runs
			api.React(func(r *kittest.Request) *kittest.Reaction {
				if broken && r.User == Name && r.Resource.Resource == "pods" && r.Verb == verb {
					return kittest.Refuse(http.StatusInternalServerError, "not now")
				}
				return nil
			})
			api.Run(t, Descriptor())
			api.Settle()
			api.Delete(t, namespace("shop"))
			api.Pass(time.Minute)
			if !api.Get(t, configMap("shop", "c")) || !api.Get(t, held) {
				t.Fatalf("%s of pods fails, and other things go", verb)
			}
			broken = false
			api.Remove(t, held)
			api.Pass(10 * time.Minute)
			if api.Get(t, namespace("shop")) || api.Get(t, configMap("shop", "c")) {
				t.Error("the namespace is still there")
			}
		})
	}
}

// TestWithoutPodsAmongTheKindsNothingGoes where the server has answered for some groups only.
func TestWithoutPodsAmongTheKindsNothingGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := namespace("shop")
		now := metav1.Now()
		ns.DeletionTimestamp = &now
		r := &reconciler{kinds: &kindList{discover: func() ([]*metav1.APIResourceList, error) {
			return []*metav1.APIResourceList{{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
				{Name: "deployments", Kind: "Deployment", Namespaced: true, Verbs: metav1.Verbs{"list", "delete"}},
			}}}, errors.New("v1: no route")
		}}}
		api := kittest.New(t)
		asked := 0
		api.React(func(*kittest.Request) *kittest.Reaction { asked++; return nil })
		r.live = api.Client(Name)
		if p := r.purge(t.Context(), ns); asked > 0 || p.err() == nil || !p.podsOnly {
			t.Errorf("%d requests, error %v", asked, p.err())
		}
	})
}

// TestFinalizersOfTheSpecThatComeBack: somebody takes them out of a namespace that still has content, or that waits for
// somebody else alone, and puts ours in again.
func TestFinalizersOfTheSpecThatComeBack(t *testing.T) {
	for _, between := range [][]corev1.FinalizerName{nil, {"example.com/hold"}} {
		synctest.Test(t, func(t *testing.T) {
			held := configMap("shop", "held", "example.com/hold")
			ns := namespace("shop")
			ns.Finalizers = []string{"example.com/hold"} // keeps the namespace meanwhile
			api := kittest.New(t, ns, held, configMap("shop", "free"))
			api.Run(t, Descriptor())
			api.Settle()
			api.Delete(t, namespace("shop"))
			api.Pass(time.Minute)
			set := func(finalizers ...corev1.FinalizerName) {
				api.Get(t, ns)
				ns.Spec.Finalizers = finalizers
				api.Update(t, ns)
			}
			set(between...)
			api.Get(t, held)
			held.Finalizers = nil
			api.Update(t, held)
			api.Pass(time.Minute)
			set(corev1.FinalizerKubernetes)
			api.Pass(time.Minute)
			api.Get(t, ns)
			if api.Get(t, held) || len(ns.Spec.Finalizers) > 0 {
				t.Errorf("after %v: finalizers %v, the last object is there = %t", between, ns.Spec.Finalizers, api.Get(t, held))
			}
		})
	}
}
