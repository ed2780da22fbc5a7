package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	flapping  = "flapping" // the app whose pods are ready now and then
	isReady   = "localcluster.orrery/ready"
	sliceSize = 4 // so that there are slices to fill, to move addresses between and to drop
)

// newService describes a Service of both families.
func newService(name string, selector map[string]string, port int) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Selector: selector, IPFamilyPolicy: new(corev1.IPFamilyPolicyPreferDualStack), ClusterIP: corev1.ClusterIPNone,
		Ports: []corev1.ServicePort{{Name: "p", Port: 80, TargetPort: intstr.FromInt32(int32(port))}},
	}}
}

// services creates Services for the pods of the workloads: of one app, of several apps, of short-lived pods and of pods
// whose readiness changes. It also changes their selectors and ports.
func (d *driver) services(ctx context.Context) error {
	app := func(name string) map[string]string { return map[string]string{"app": name} }
	early := newService("early", app("scaled"), 80)
	early.Spec.PublishNotReadyAddresses = true
	for _, s := range []*corev1.Service{
		newService("surging", app("surging"), 80), newService("scaled", app("scaled"), 80), newService("ordered", app("ordered"), 80), newService("each", app("each"), 80),
		newService("jobs", app("work"), 80), newService("mixture", map[string]string{"version": "v3"}, 80), newService("roving", app("mixed"), 80), newService(flapping, app(flapping), 80), early,
	} {
		if _, err := d.api.CoreV1().Services(namespace).Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	d.often(6*time.Second, func(ctx context.Context) error {
		to := []string{"surging", "saving", "mixed", "recreated", "nobody"}[d.rand.IntN(5)]
		return d.patchService(ctx, "roving", fmt.Sprintf(`{"spec":{"selector":{"app":%q}}}`, to))
	})
	d.often(7*time.Second, func(ctx context.Context) error {
		return d.patchService(ctx, "scaled", fmt.Sprintf(`{"spec":{"ports":[{"name":"p","port":80,"targetPort":%d}]}}`, 8080+d.rand.IntN(3)))
	})
	d.often(5*time.Second, d.rebirth)
	if !d.has("replicaset-controller") {
		return nil
	}
	// Its pods have an address before they are ever ready.
	life := map[string]string{startAfter: "300ms", terminateAfter: "400ms", isReady: "false"}
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: flapping}, Spec: appsv1.ReplicaSetSpec{
		Replicas: new(int32(10)), Selector: selector(flapping), Template: template(flapping, "fake:1", life),
	}}
	if _, err := d.api.AppsV1().ReplicaSets(namespace).Create(ctx, rs, metav1.CreateOptions{}); err != nil {
		return err
	}
	d.often(300*time.Millisecond, d.flap)
	return nil
}

func (d *driver) patchService(ctx context.Context, name, patch string) error {
	_, err := d.api.CoreV1().Services(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// rebirth creates a Service, or deletes it if it exists, so that there are different Services of the same name.
func (d *driver) rebirth(ctx context.Context) error {
	_, err := d.api.CoreV1().Services(namespace).Create(ctx, newService("reborn", map[string]string{"app": flapping}, 80), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return d.api.CoreV1().Services(namespace).Delete(ctx, "reborn", metav1.DeleteOptions{})
}

// flap changes the readiness of a pod, and has some replaced.
func (d *driver) flap(ctx context.Context) error {
	pods, err := d.api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + flapping})
	if err != nil || len(pods.Items) == 0 {
		return err
	}
	name := pods.Items[d.rand.IntN(len(pods.Items))].Name
	if d.rand.IntN(8) == 0 {
		return d.api.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
	return d.setReady(ctx, name, d.rand.IntN(3) > 0)
}

func (d *driver) setReady(ctx context.Context, pod string, yes bool) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%t"}}}`, isReady, yes)
	_, err := d.api.CoreV1().Pods(namespace).Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// allReady ends the changes of readiness.
func (d *driver) allReady(ctx context.Context) error {
	pods, err := d.api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + flapping})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for _, p := range pods.Items {
		if err := d.setReady(ctx, p.Name, true); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("make pods ready: %w", err)
		}
	}
	return nil
}
