package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

// workload is a number of Deployments of one namespace, each behind a Service.
type workload struct {
	client    kubernetes.Interface
	namespace string
	size      size
}

func template(labels map[string]string, scheduler string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{{
			Name: "app", Image: "registry.example/app:1", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
			Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}, {Name: "C", Value: "3"}},
		}}},
	}
}

func (w *workload) prepare(ctx context.Context) error {
	return makeNamespace(ctx, w.client, w.namespace)
}

func (w *workload) names() []string {
	out := make([]string, w.size.count)
	for i := range out {
		out[i] = fmt.Sprintf("app-%03d", i)
	}
	return out
}

func (w *workload) create(ctx context.Context) error {
	for _, name := range w.names() {
		labels := map[string]string{"app": name}
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.ServiceSpec{
			Selector: labels, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}},
		}}
		if _, err := w.client.CoreV1().Services(w.namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
			return err
		}
		n := int32(w.size.each)
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: appsv1.DeploymentSpec{
			Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template(labels, ""),
		}}
		if _, err := w.client.AppsV1().Deployments(w.namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (w *workload) patch(ctx context.Context, patch string) error {
	for _, name := range w.names() {
		_, err := w.client.AppsV1().Deployments(w.namespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

// settled reports whether every Deployment is rolled out at that many replicas, no other pod is left, and every
// endpoint is in a slice and ready.
func (w *workload) settled(ctx context.Context, replicas int) (bool, error) {
	list, err := w.client.AppsV1().Deployments(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	for i := range list.Items {
		s, want := list.Items[i].Status, int32(replicas)
		if s.ObservedGeneration < list.Items[i].Generation || s.Replicas != want || s.UpdatedReplicas != want || s.AvailableReplicas != want {
			return false, nil
		}
	}
	ready, err := w.endpoints(ctx)
	return ready == replicas*w.size.count, err
}

func (w *workload) endpoints(ctx context.Context) (ready int, err error) {
	slices, err := w.client.DiscoveryV1().EndpointSlices(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for i := range slices.Items {
		for _, e := range slices.Items[i].Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				ready++
			}
		}
	}
	return ready, nil
}

func (w *workload) remove(ctx context.Context) error {
	return removeNamespace(ctx, w.client, w.namespace)
}

func (w *workload) gone(ctx context.Context) (bool, error) {
	return namespaceGone(ctx, w.client, w.namespace)
}

func removeNamespace(ctx context.Context, c kubernetes.Interface, name string) error {
	return c.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
}

func namespaceGone(ctx context.Context, c kubernetes.Interface, name string) (bool, error) {
	_, err := c.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}
