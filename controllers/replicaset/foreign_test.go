package replicaset

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A reference with the UID of a set, but another name or kind, does not refer to the set.
func TestAPodThatNamesAnotherOwnerIsNoReplica(t *testing.T) {
	for name, wrong := range map[string]func(*metav1.OwnerReference){
		"name": func(r *metav1.OwnerReference) { r.Name = "api" },
		"kind": func(r *metav1.OwnerReference) { r.Kind = "ReplicationController" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := newSet("web", 1)
				set.UID = "web"
				other := orphan("other", map[string]string{"app": "web", "tier": "front"})
				other.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, setKind)}
				wrong(&other.OwnerReferences[0])
				api := start(t, set, other)
				if n := count(api.TakeWrites(), "create v1/pods default/"); n != 1 {
					t.Errorf("%d pods were created, want 1", n)
				}
				if s := get(t, api, "web").Status; s.Replicas != 1 {
					t.Errorf("status %+v, want 1 replica", s)
				}
			})
		})
	}
}

// Anyone who may create pods in a namespace can give them any owner. An owner in another namespace must ignore them.
func TestAPodOfAnotherNamespaceIsNoReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newSet("web", 1)
		set.UID = "web"
		foreign := orphan("foreign", map[string]string{"app": "web", "tier": "front"})
		foreign.Namespace = "other"
		foreign.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, setKind)}
		api := start(t, set, foreign)
		if n := count(api.TakeWrites(), "create v1/pods default/"); n != 1 {
			t.Errorf("%d pods were created, want 1", n)
		}
		if s := get(t, api, "web").Status; s.Replicas != 1 {
			t.Errorf("status %+v, want 1 replica", s)
		}
		changePod(t, api, foreign, func(p *corev1.Pod) { p.Labels = nil })
		api.Settle()
		if writes := api.TakeWrites(); len(writes) > 0 {
			t.Errorf("the foreign pod that matches no longer caused %v", writes)
		}
	})
}
