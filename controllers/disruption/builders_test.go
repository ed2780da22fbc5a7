package disruption

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"orrery/kit/client"
	"orrery/kit/kittest"
)

const ns = "default"

var widgets = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

type labels = map[string]string

func app(name string) labels { return labels{"app": name} }

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }

func template(l labels) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: l}}
}

func replicaSet(name string, replicas int32, by ...client.Object) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{ObjectMeta: named(name), Spec: appsv1.ReplicaSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: app("web")}, Template: template(app("web"))}}
	rs.OwnerReferences = refs("apps/v1", "Deployment", by)
	return rs
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: named(name), Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: app("web")}, Template: template(app("web"))}}
}

func statefulSet(name string, replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: named(name), Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: app("web")}, Template: template(app("web"))}}
}

func replicationController(name string, replicas int32) *corev1.ReplicationController {
	t := template(app("web"))
	return &corev1.ReplicationController{ObjectMeta: named(name), Spec: corev1.ReplicationControllerSpec{
		Replicas: &replicas, Selector: app("web"), Template: &t}}
}

func widget(name string, replicas int64) *unstructured.Unstructured {
	w := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": replicas}}}
	w.SetGroupVersionKind(widgets)
	w.SetNamespace(ns)
	w.SetName(name)
	return w
}

func refs(version, kind string, by []client.Object) []metav1.OwnerReference {
	if len(by) == 0 {
		return nil
	}
	yes := true
	return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: by[0].GetName(), UID: by[0].GetUID(), Controller: &yes}}
}

// kindOf returns the kind of an object in owner references.
func kindOf(o client.Object) (version, kind string) {
	switch o := o.(type) {
	case *appsv1.ReplicaSet:
		return "apps/v1", "ReplicaSet"
	case *appsv1.StatefulSet:
		return "apps/v1", "StatefulSet"
	case *corev1.ReplicationController:
		return "v1", "ReplicationController"
	case *unstructured.Unstructured:
		return o.GetAPIVersion(), o.GetKind()
	}
	return "", ""
}

// pod returns a ready pod of app web, of an owner if one is given.
func pod(name string, by ...client.Object) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: named(name)}
	p.Labels = app("web")
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if len(by) > 0 {
		version, kind := kindOf(by[0])
		p.OwnerReferences = refs(version, kind, by)
	}
	return p
}

func unready(p *corev1.Pod) *corev1.Pod {
	p.Status.Conditions[0].Status = corev1.ConditionFalse
	return p
}

// populate creates an owner and n ready pods of it, named after it.
func populate(t *testing.T, api *kittest.API, by client.Object, n int) []*corev1.Pod {
	t.Helper()
	if by.GetUID() == "" {
		api.Create(t, by)
	}
	var out []*corev1.Pod
	for i := range n {
		p := pod(fmt.Sprint(by.GetName(), "-", i), by)
		api.Create(t, p)
		out = append(out, p)
	}
	return out
}

func budget(name string, change ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: named(name)}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: app("web")}
	for _, f := range change {
		f(b)
	}
	return b
}

func atLeast(v string) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = new(intstr.Parse(v)) }
}

func atMost(v string) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.MaxUnavailable = new(intstr.Parse(v)) }
}

func selecting(s *metav1.LabelSelector) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = s }
}

// state formats a budget's status on one line: allowed, healthy of desired of expected, and the condition.
func state(b *policyv1.PodDisruptionBudget) string {
	s := b.Status
	text := fmt.Sprintf("allows %d: healthy %d, desired %d, expected %d", s.DisruptionsAllowed, s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods)
	c := meta.FindStatusCondition(s.Conditions, policyv1.DisruptionAllowedCondition)
	if c == nil {
		return text + "; no condition"
	}
	return fmt.Sprintf("%s; %s %s", text, c.Status, c.Reason)
}

func expectState(t *testing.T, api *kittest.API, name, want string) *policyv1.PodDisruptionBudget {
	t.Helper()
	b := &policyv1.PodDisruptionBudget{ObjectMeta: named(name)}
	if !api.Get(t, b) {
		t.Fatalf("budget %s is gone", name)
	}
	if got := state(b); got != want {
		t.Errorf("budget %s %s\nwant %s", name, got, want)
	}
	return b
}

// reasons returns the reasons of the events about an object, each once, in order of first occurrence.
func reasons(api *kittest.API, object string) []string {
	var out []string
	for _, e := range api.Events() {
		if e.Object == object && !slices.Contains(out, e.Reason) {
			out = append(out, e.Reason)
		}
	}
	return out
}

func messages(api *kittest.API, reason string) []string {
	var out []string
	for _, e := range api.Events() {
		if e.Reason == reason {
			out = append(out, e.Type+" "+e.Object+": "+e.Message)
		}
	}
	return out
}
