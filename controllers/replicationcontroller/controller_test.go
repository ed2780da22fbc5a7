package replicationcontroller

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

func newController(name string, replicas int32) *corev1.ReplicationController {
	labels := map[string]string{"app": name}
	return &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ReplicationControllerSpec{
			Replicas: &replicas, Selector: labels,
			Template: &corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "img"}}},
			},
		},
	}
}

func get(t *testing.T, api *kittest.API, name string) *corev1.ReplicationController {
	t.Helper()
	rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if !api.Get(t, rc) {
		t.Fatalf("ReplicationController %s is gone", name)
	}
	return rc
}

func running(p *corev1.Pod) {
	p.Spec.NodeName = "node"
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
}

// kubernetes/kubernetes#131822: the status has no field for terminating pods, whatever the gate of ReplicaSets says.
func TestADeletedPodIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newController("web", 3))
		api.SetGate("DeploymentReplicaSetTerminatingReplicas", true)
		api.Run(t, Descriptor())
		api.Settle()
		for _, p := range kittest.List[corev1.Pod](t, api, "") {
			running(p)
			api.Update(t, p)
		}
		api.Settle()
		victim := kittest.List[corev1.Pod](t, api, "")[0]
		if ref := metav1.GetControllerOf(victim); ref == nil || ref.APIVersion != "v1" || ref.Kind != "ReplicationController" || ref.Name != "web" {
			t.Errorf("owner %+v", ref)
		}
		api.Delete(t, victim)
		api.Settle()
		if got := len(kittest.List[corev1.Pod](t, api, "")); got != 4 {
			t.Errorf("%d pods, want one that goes and three others", got)
		}
		want := corev1.ReplicationControllerStatus{Replicas: 3, FullyLabeledReplicas: 3, ReadyReplicas: 2, AvailableReplicas: 2, ObservedGeneration: 1}
		if got := get(t, api, "web").Status; !reflect.DeepEqual(got, want) {
			t.Errorf("status %+v, want %+v", got, want)
		}
		for _, e := range api.Events() {
			if e.Reason != "SuccessfulCreate" || !strings.HasPrefix(e.Message, "Created pod: web-") || e.Object != "ReplicationController default/web" {
				t.Errorf("event %v", e)
			}
		}
	})
}

func TestScalingAdoptionAndFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stray := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stray", Labels: map[string]string{"app": "web"}}}
		api := kittest.New(t, newController("web", 2))
		api.Run(t, Descriptor())
		api.Settle()
		api.TakeWrites()
		api.Create(t, stray)
		api.Settle()
		if writes := strings.Join(api.TakeWrites(), "\n"); !strings.Contains(writes, "patch v1/pods default/stray") || !strings.Contains(writes, "delete v1/pods") {
			t.Errorf("a third pod that matches: %s", writes)
		}
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" {
				return kittest.Refuse(403, "exceeded quota")
			}
			return nil
		})
		rc := get(t, api, "web")
		rc.Spec.Replicas = new(int32(4))
		api.Update(t, rc)
		time.Sleep(time.Second)
		c := get(t, api, "web").Status.Conditions
		if len(c) != 1 || c[0].Type != corev1.ReplicationControllerReplicaFailure || c[0].Reason != "FailedCreate" || c[0].Message != "exceeded quota" {
			t.Errorf("conditions %+v", c)
		}
		api.Unreact()
		time.Sleep(3 * time.Minute)
		if s := get(t, api, "web").Status; s.Replicas != 4 || len(s.Conditions) != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestStatusGoesThereAndBack(t *testing.T) {
	status := corev1.ReplicationControllerStatus{
		Replicas: 5, FullyLabeledReplicas: 4, ReadyReplicas: 3, AvailableReplicas: 2, ObservedGeneration: 1,
		Conditions: []corev1.ReplicationControllerCondition{{
			Type: corev1.ReplicationControllerReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: "m", LastTransitionTime: metav1.Unix(1, 0),
		}},
	}
	if got := statusFrom(statusOf(&corev1.ReplicationController{Status: status})); !reflect.DeepEqual(got, status) {
		t.Errorf("got %+v, want %+v", got, status)
	}
}

func TestWorkersAreChecked(t *testing.T) {
	if errs := (&options{workers: 0}).validate(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "--concurrent-rc-syncs must be at least 1, got 0") {
		t.Errorf("errors %v", errs)
	}
	if errs := (&options{workers: 1}).validate(); errs != nil {
		t.Errorf("errors %v", errs)
	}
}
