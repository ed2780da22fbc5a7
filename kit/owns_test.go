package kit_test

import (
	"context"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery/kit"
	"orrery/kit/kittest"
)

func TestOwnersAreFoundBeforeAndAfterAChange(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		owned := func(name, kind, apiVersion, owner string) *corev1.Pod {
			yes := true
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: []metav1.OwnerReference{
				{Kind: kind, APIVersion: apiVersion, Name: owner, UID: "u", Controller: &yes}}}}
		}
		pod := owned("p", "ReplicaSet", "apps/v1", "one")
		api := kittest.New(t, pod, owned("q", "ReplicaSet", "example.com/v1", "other"), owned("m", "Node", "v1", "n"))
		var sets, nodes calls[kit.Key]
		loop(t, api, func(_ context.Context, key kit.Key) (kit.Result, error) {
			sets.add(key)
			return kit.Done, nil
		}, kit.Owns[corev1.Pod, appsv1.ReplicaSet]())
		loop(t, api, func(_ context.Context, key kit.Key) (kit.Result, error) {
			nodes.add(key)
			return kit.Done, nil
		}, kit.Owns[corev1.Pod, corev1.Node]())
		api.Settle()
		pod.OwnerReferences[0].Name = "two"
		api.Update(t, pod)
		api.Settle()
		api.Remove(t, pod)
		api.Settle()
		want := []kit.Key{{Namespace: "default", Name: "one"}, {Namespace: "default", Name: "two"}, {Namespace: "default", Name: "one"}, {Namespace: "default", Name: "two"}}
		if got := sets.keys(); !slices.Equal(got, want) {
			t.Errorf("replica sets %v, want %v", got, want)
		}
		if got := nodes.keys(); !slices.Equal(got, []kit.Key{{Name: "n"}}) {
			t.Errorf("nodes %v: an owner without a namespace has none", got)
		}
	})
}

// A ReplicaSet or a revision may be older than the group that its owner is in now.
func TestOwnersAreFoundByReferencesOfFormerGroups(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old"}}
		api := kittest.New(t, set)
		var seen calls[kit.Key]
		loop(t, api, func(_ context.Context, key kit.Key) (kit.Result, error) {
			seen.add(key)
			return kit.Done, nil
		}, kit.Owns[corev1.Pod, appsv1.ReplicaSet](), kit.For[appsv1.ReplicaSet]())
		api.Settle()
		for name, uid := range map[string]types.UID{"mine": set.UID, "of-another": "other"} {
			ref := *metav1.NewControllerRef(&metav1.ObjectMeta{Name: set.Name, UID: uid}, schema.GroupVersionKind{Group: "extensions", Version: "v1beta1", Kind: "ReplicaSet"})
			api.Create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: []metav1.OwnerReference{ref}}})
			api.Settle()
		}
		if got, want := seen.keys(), slices.Repeat([]kit.Key{{Namespace: "default", Name: "old"}}, 2); !slices.Equal(got, want) {
			t.Errorf("%v, want the set itself and then its pod", got)
		}
	})
}

// An owner that is gone asks for nothing, however many of its objects follow it. One that comes later than they do is
// looked at when it comes.
func TestOwnersThatAreNotThereAreNotCalledFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		yes := true
		owned := func(name, owner string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: []metav1.OwnerReference{
				{Kind: "ReplicaSet", APIVersion: "apps/v1", Name: owner, UID: "u", Controller: &yes}}}}
		}
		set := func(name string) *appsv1.ReplicaSet {
			return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		}
		api := kittest.New(t, set("there"), owned("a", "there"), owned("b", "late"))
		var seen calls[kit.Key]
		told := 0
		loop(t, api, func(_ context.Context, key kit.Key) (kit.Result, error) {
			seen.add(key)
			return kit.Done, nil
		}, kit.Owns[corev1.Pod, appsv1.ReplicaSet](), kit.For[appsv1.ReplicaSet]())
		there, late := kit.Key{Namespace: "default", Name: "there"}, kit.Key{Namespace: "default", Name: "late"}
		expect := func(when string, want ...kit.Key) {
			t.Helper()
			api.Settle()
			all := seen.keys()
			if got := all[told:]; !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
			told = len(all)
		}
		expect("at the start", there)
		api.Create(t, owned("c", "late"))
		expect("another pod of the late owner")
		api.Create(t, set("late"))
		expect("the late owner comes", late)
		api.Create(t, owned("d", "late"))
		expect("a pod of it", late)
		api.Remove(t, set("there"))
		expect("the other owner goes", there)
		api.Remove(t, owned("a", "there"))
		expect("its pod follows it")
	})
}
