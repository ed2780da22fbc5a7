package namespace

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestOnlyTheDeletionOfANamespaceWakesIt(t *testing.T) {
	live, gone := &corev1.Namespace{}, &corev1.Namespace{}
	now := metav1.Now()
	gone.DeletionTimestamp = &now
	held := gone.DeepCopy()
	held.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
	others := gone.DeepCopy()
	others.Spec.Finalizers = []corev1.FinalizerName{"example.com/hold"}
	for _, tc := range []struct {
		name     string
		old, new *corev1.Namespace
		want     bool
	}{
		{"created", nil, live, false},
		{"first seen while being deleted", nil, gone, true},
		{"deleted", live, gone, true},
		{"changed while being deleted", gone, gone, false},
		{"finalizers are added while it is being deleted", gone, held, true},
		{"ours is added to another", others, held, true},
		{"finalizers are removed", held, gone, false},
		{"removed", gone, nil, false},
	} {
		if got := deletionSeen(tc.old, tc.new); got != tc.want {
			t.Errorf("%s: woken = %t, want %t", tc.name, got, tc.want)
		}
	}
}

func TestKindsThatCannotBeDeletedAreLeftOut(t *testing.T) {
	f := parseKinds([]*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: metav1.Verbs{"list", "delete", "deletecollection"}},
			{Name: "bindings", Kind: "Binding", Namespaced: true, Verbs: metav1.Verbs{"create"}},
			{Name: "nodes", Kind: "Node", Verbs: metav1.Verbs{"list", "delete"}},
		}},
		{GroupVersion: "a/b/c", APIResources: []metav1.APIResource{{Name: "odd", Namespaced: true, Verbs: metav1.Verbs{"delete"}}}},
	})
	if len(f.kinds) != 1 || f.kinds[0].gvr != podResource || !f.kinds[0].canList || !f.kinds[0].canDeleteMany {
		t.Errorf("kinds = %+v, want pods alone", f.kinds)
	}
	if f.unparsed == nil {
		t.Error("a group version of three parts must be reported")
	}
}

func TestConditionsSayWhatKeepsANamespace(t *testing.T) {
	p := &pass{
		found:      found{failed: errors.New("no route")},
		left:       map[schema.GroupVersionResource]int{{Group: "apps", Version: "v1", Resource: "deployments"}: 2},
		finalizers: map[string]int{"b/f": 1, "a/f": 2},
		failures:   []error{errors.New("z"), errors.New("y")},
	}
	want := map[corev1.NamespaceConditionType]string{
		corev1.NamespaceDeletionDiscoveryFailure: "no route",
		corev1.NamespaceDeletionContentFailure:   "Failed to delete all resource types, 2 remaining: y, z",
		corev1.NamespaceContentRemaining:         "Some resources are remaining: deployments.apps has 2 resource instances",
		corev1.NamespaceFinalizersRemaining:      "Some content in the namespace has finalizers remaining: a/f in 2 resource instances, b/f in 1 resource instances",
	}
	var s corev1.NamespaceStatus
	first := metav1.NewTime(time.Unix(100, 0))
	if !setConditions(&s, p.conditions(), first) || len(s.Conditions) != 5 {
		t.Fatalf("conditions = %+v, want five new ones", s.Conditions)
	}
	for _, c := range s.Conditions {
		if text, bad := want[c.Type]; bad != (c.Status == corev1.ConditionTrue) || bad && c.Message != text {
			t.Errorf("%s = %s %q, want %q", c.Type, c.Status, c.Message, text)
		}
	}
	if setConditions(&s, p.conditions(), metav1.NewTime(time.Unix(200, 0))) {
		t.Error("the same conditions must not be written again")
	}
	p.failures = p.failures[:1]
	if !setConditions(&s, p.conditions(), metav1.NewTime(time.Unix(300, 0))) || s.Conditions[2].LastTransitionTime != first {
		t.Error("another message is a change, but not a transition")
	}
}

func TestWhatRemainsIsUnknownWhileOnlyPodsWereDeleted(t *testing.T) {
	p := &pass{left: map[schema.GroupVersionResource]int{podResource: 3}, podsOnly: true}
	if !p.podsLeft() {
		t.Error("podsLeft = false with 3 pods")
	}
	for _, c := range p.conditions() {
		if c.Status != corev1.ConditionFalse {
			t.Errorf("%s = %s, want False", c.Type, c.Status)
		}
	}
}

func TestLooksBecomeRarerWithAge(t *testing.T) {
	deleted := time.Unix(1000, 0)
	ns := &corev1.Namespace{}
	ns.DeletionTimestamp = &metav1.Time{Time: deleted}
	for _, tc := range []struct {
		age, waited, estimate, want time.Duration
	}{
		{5 * time.Second, 0, 30 * time.Second, 500 * time.Millisecond},
		{9 * time.Second, 4 * time.Second, 30 * time.Second, 2 * time.Second},
		{5 * time.Minute, 0, 30 * time.Second, 16 * time.Second}, // this process has begun a moment ago
		{time.Hour, time.Hour, 40 * time.Minute, 5 * time.Minute},
		{-10 * time.Minute, 8 * time.Second, 30 * time.Second, 4 * time.Second}, // the server's clock is ahead
		{-10 * time.Minute, time.Minute, 15 * time.Second, 8500 * time.Millisecond},
	} {
		if got := nextReconcile(ns, tc.estimate, deleted.Add(tc.age), tc.waited, 5*time.Minute); got != tc.want {
			t.Errorf("after %s with %s to go: next look in %s, want %s", tc.age, tc.estimate, got, tc.want)
		}
	}
}
