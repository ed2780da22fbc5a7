package scenarios

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubectl runs kubectl as the administrator and returns what it printed.
func (e *env) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return e.kubectlInput(t, "", args...)
}

// apply applies a manifest with kubectl.
func (e *env) apply(t *testing.T, manifest string) {
	t.Helper()
	e.kubectlInput(t, manifest, "apply", "-f", "-")
}

func (e *env) kubectlInput(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, err := e.tryKubectl(t, input, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (e *env) tryKubectl(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	path, err := e.Kubectl(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, append([]string{"--kubeconfig=" + e.Kubeconfig(), "--cache-dir=" + t.TempDir()}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s%s", strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String(), nil
}

// deployment describes a Deployment whose pods run a fake image.
func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec("fake:1")},
		},
	}
}

// replicaSet describes a ReplicaSet of the same kind of pods.
func replicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	d := deployment(name, replicas)
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: d.Spec.Selector, Template: d.Spec.Template},
	}
}

// service describes the Service in front of a deployment.
func service(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}
}

func podSpec(image string) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Image: image,
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}},
	}}}
}

// rolledOut is nil once a Deployment runs the wanted number of pods of its current template and no others.
func (e *env) rolledOut(t *testing.T, namespace, name string, replicas int32) error {
	d, err := e.Client().AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	s := d.Status
	if s.ObservedGeneration < d.Generation || s.Replicas != replicas || s.UpdatedReplicas != replicas || s.AvailableReplicas != replicas {
		return fmt.Errorf("generation %d, status %+v", d.Generation, s)
	}
	return nil
}

// pods returns the pods with label app=<app> that are not being deleted.
func (e *env) pods(t *testing.T, namespace, app string) ([]corev1.Pod, error) {
	list, err := e.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, err
	}
	var live []corev1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			live = append(live, p)
		}
	}
	return live, nil
}

// readyAddresses counts the ready endpoints of a Service in its slices of each address family.
func (e *env) readyAddresses(t *testing.T, namespace, service string) (ipv4, ipv6 int, err error) {
	list, err := e.Client().DiscoveryV1().EndpointSlices(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + service})
	if err != nil {
		return 0, 0, err
	}
	for _, slice := range list.Items {
		ready := 0
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
				ready++
			}
		}
		if slice.AddressType == "IPv6" {
			ipv6 += ready
		} else {
			ipv4 += ready
		}
	}
	return ipv4, ipv6, nil
}

// exposed is nil once a Service has exactly n ready addresses.
func (e *env) exposed(t *testing.T, namespace, service string, n int) error {
	got, _, err := e.readyAddresses(t, namespace, service)
	return errors.Join(err, differ("number of ready addresses", got, n))
}
