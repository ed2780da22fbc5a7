package scenarios

import (
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOneMoreClaimTemplate deletes sets without their pods and creates them with another claim template, as the API allows no
// other way to add one. The server refuses to give the pods the volume; the update replaces them (kubernetes/kubernetes#141876).
func TestOneMoreClaimTemplate(t *testing.T) {
	t.Parallel()
	e := withOrrery(t, 3)
	e.turmoil = true // the log tells of every refusal, and each calls the change forbidden
	ns := e.namespace(t, "template")
	const keep = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	sets := map[string][]func(*appsv1.StatefulSet){"ordered": nil, "parallel": {parallelPods}}
	settled := func() (err error) {
		for name := range sets {
			err = errors.Join(err, e.setSettled(t, ns, name, 3, 3))
		}
		return err
	}
	for name, opts := range sets {
		must(e.Client().AppsV1().StatefulSets(ns).Create(t.Context(), statefulSet(name, 3, opts...), metav1.CreateOptions{}))(t)
	}
	eventually(t, "the sets without storage", settled)
	for name, opts := range sets {
		e.kubectl(t, "-n", ns, "delete", "statefulset", name, "--cascade=orphan")
		set := statefulSet(name, 3, append(opts, withClaims(keep, keep, "data"))...)
		set.Spec.Template.Spec.Containers[0].Image = "fake:2"
		must(e.Client().AppsV1().StatefulSets(ns).Create(t.Context(), set, metav1.CreateOptions{}))(t)
	}
	eventually(t, "all pods have storage", func() error { return errors.Join(e.bind(t, ns), settled()) })
	for name := range sets {
		for i := range 3 {
			pod := must(e.Client().CoreV1().Pods(ns).Get(t.Context(), fmt.Sprintf("%s-%d", name, i), metav1.GetOptions{}))(t)
			if !hasClaim(pod, "data-"+pod.Name) || pod.Spec.Containers[0].Image != "fake:2" {
				t.Errorf("%s has image %s and volumes %v", pod.Name, pod.Spec.Containers[0].Image, pod.Spec.Volumes)
			}
		}
	}
	if got := e.kubectl(t, "-n", ns, "get", "events", "--field-selector=reason=FailedUpdate", "-o", "name"); got == "" {
		t.Error("no event tells that the volumes could not be changed")
	}
}

func hasClaim(pod *corev1.Pod, name string) bool {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == name {
			return true
		}
	}
	return false
}
