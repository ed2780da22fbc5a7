package deployment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"orrery/kit"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

// keeper simulates the ReplicaSet controller and the kubelets, without pods: a ReplicaSet has its desired number of pods at
// once, and those of templates with a node selector never become available.
type keeper struct {
	client *client.Client
	quota  *int32 // pods that all ReplicaSets may have together; nil is no limit
	others func() []*appsv1.ReplicaSet
}

func (k *keeper) init(cc kit.ControllerContext) (bool, error) {
	sets := kit.Store[appsv1.ReplicaSet](cc)
	k.client, k.others = cc.Client, func() []*appsv1.ReplicaSet { return sets.List("") }
	return true, kit.NewController(cc, kit.Objects(sets, k)).Watch(kit.For[appsv1.ReplicaSet]()).Complete()
}

func (k *keeper) Reconcile(ctx context.Context, rs *appsv1.ReplicaSet) (kit.Result, error) {
	next := rs.DeepCopy()
	s := &next.Status
	s.Conditions = nil
	s.ObservedGeneration, s.Replicas, s.TerminatingReplicas = rs.Generation, size(rs), new(int32)
	if k.quota != nil {
		left := *k.quota - sum(k.others(), func(o *appsv1.ReplicaSet) int32 { return o.Status.Replicas }) + rs.Status.Replicas
		if s.Replicas > left {
			s.Replicas = left
			s.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate"}}
		}
	}
	s.AvailableReplicas = s.Replicas
	if rs.Spec.Template.Spec.NodeSelector != nil {
		s.AvailableReplicas = min(rs.Status.AvailableReplicas, s.Replicas)
	}
	s.ReadyReplicas = s.AvailableReplicas
	if apiequality.Semantic.DeepEqual(rs.Status, next.Status) {
		return kit.Done, nil
	}
	_, err := client.UpdateStatus(ctx, k.client, next)
	return kit.Done, err
}

// start runs the controller and a keeper.
func start(t *testing.T, objs ...client.Object) *kittest.API {
	t.Helper()
	api := kittest.New(t, objs...)
	api.Run(t, (&keeper{}).init)
	api.Run(t, Descriptor())
	api.Settle()
	return api
}

type deploymentOption func(*appsv1.Deployment)

// newDeployment returns a Deployment with the server's defaults, a surge of 1 and no unavailable pods.
func newDeployment(name string, replicas int32, opts ...deploymentOption) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, RevisionHistoryLimit: new(int32(10)), ProgressDeadlineSeconds: new(int32(600)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "img:1"}}},
			},
		},
	}
	slack("1", "0")(d)
	for _, o := range opts {
		o(d)
	}
	return d
}

func slack(surge, unavailable string) deploymentOption {
	s, u := intstr.Parse(surge), intstr.Parse(unavailable)
	return func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{
			Type:          appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u},
		}
	}
}

func recreated(d *appsv1.Deployment) {
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
}

func image(image string) deploymentOption {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image }
}

// bad makes the pods of a template never become available.
func bad(d *appsv1.Deployment) { d.Spec.Template.Spec.NodeSelector = map[string]string{"no": "where"} }

func replicas(n int32) deploymentOption {
	return func(d *appsv1.Deployment) { d.Spec.Replicas = &n }
}

// change changes the stored Deployment as a user does, and waits for the controller.
func change(t *testing.T, api *kittest.API, name string, opts ...deploymentOption) {
	t.Helper()
	d := read(t, api, name)
	for _, o := range opts {
		o(d)
	}
	d.Generation++
	api.Update(t, d)
	api.Settle()
}

func read(t *testing.T, api *kittest.API, name string) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if !api.Get(t, d) {
		t.Fatalf("there is no Deployment %s", name)
	}
	return d
}

// sizes formats the ReplicaSets as "img:1=0 img:2=4", sorted by image.
func sizes(t *testing.T, api *kittest.API) string {
	t.Helper()
	var out []string
	for _, rs := range kittest.List[appsv1.ReplicaSet](t, api, "default") {
		out = append(out, fmt.Sprintf("%s=%d", rs.Spec.Template.Spec.Containers[0].Image, size(rs)))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// only returns the only ReplicaSet of an image.
func only(t *testing.T, api *kittest.API, image string) *appsv1.ReplicaSet {
	t.Helper()
	for _, rs := range kittest.List[appsv1.ReplicaSet](t, api, "default") {
		if rs.Spec.Template.Spec.Containers[0].Image == image {
			return rs
		}
	}
	t.Fatalf("there is no ReplicaSet of %s", image)
	return nil
}

// progress returns status and reason of the Progressing condition.
func progress(t *testing.T, api *kittest.API, name string) string {
	t.Helper()
	c := findCondition(read(t, api, name).Status.Conditions, appsv1.DeploymentProgressing)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

// told returns the controller's events since the last n.
func told(api *kittest.API, n int) []string {
	var out []string
	for _, e := range api.Events()[n:] {
		out = append(out, e.Type+" "+e.Reason+": "+e.Message)
	}
	return out
}

// written returns and forgets the controller's own writes.
func written(api *kittest.API) []string {
	return slices.DeleteFunc(api.TakeWrites(), func(w string) bool { return strings.Contains(w, "replicasets/status") })
}

// impatient gives the Deployment a progress deadline of a minute.
func impatient(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = new(int32(60)) }
