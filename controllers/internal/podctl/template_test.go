package podctl

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFromTemplate(t *testing.T) {
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Name: "ignored", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "x"}, Finalizers: []string{"f"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "K", Value: "v"}}}}},
	}
	before := template.DeepCopy()
	owner := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u"}}
	ref := metav1.OwnerReference{Kind: "ReplicaSet", UID: "u"}

	pod := FromTemplate(template, owner, ref)
	want := metav1.ObjectMeta{
		Namespace: "ns", GenerateName: "web-", Labels: template.Labels, Annotations: template.Annotations,
		Finalizers: template.Finalizers, OwnerReferences: []metav1.OwnerReference{ref},
	}
	if !reflect.DeepEqual(pod.ObjectMeta, want) || !reflect.DeepEqual(pod.Spec, template.Spec) {
		t.Errorf("got %+v", pod)
	}
	if shared := Share(template, owner, ref); !reflect.DeepEqual(shared, pod) {
		t.Errorf("the sharing form differs: %+v", shared)
	}
	pod.Labels["x"], pod.Annotations["x"], pod.Finalizers[0] = "y", "y", "y"
	pod.Spec.Containers[0].Env[0].Value = "changed"
	if !reflect.DeepEqual(template, before) {
		t.Error("changing the pod changed the template")
	}
}

func TestNamePrefix(t *testing.T) {
	long := strings.Repeat("a", 253)
	for owner, want := range map[string]string{
		"web": "web-", "web.v1": "web.v1-", long: long + "-", long + "a": long + "a",
	} {
		if got := NamePrefix(owner); got != want {
			t.Errorf("prefix of %s is %s, want %s", owner, got, want)
		}
	}
}
