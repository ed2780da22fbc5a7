package checker

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// world makes up a history and shows it to a checker, one second after the other.
type world struct {
	c       *Checker
	now     time.Time
	version int
	listed  bool // what is shown is found by lists
}

func newWorld() *world { return &world{c: New(), now: time.Unix(1_800_000_000, 0)} }

// see shows objects as they are now.
func (w *world) see(objs ...metav1.Object) {
	for _, o := range objs {
		w.show(o, false)
	}
}

// gone shows that objects were removed.
func (w *world) gone(objs ...metav1.Object) {
	for _, o := range objs {
		w.show(o, true)
	}
}

func (w *world) show(o metav1.Object, gone bool) {
	w.version++
	w.now = w.now.Add(time.Second)
	o.SetResourceVersion(fmt.Sprint(w.version))
	if r, ok := o.(runtime.Object); ok { // later changes are made to the same objects
		w.c.Apply(Event{At: w.now, Gone: gone, Listed: w.listed, Object: r.DeepCopyObject().(metav1.Object)})
	}
}

func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.c.Tick(w.now)
}

// found returns the rules that were broken since the last call.
func (w *world) found() (rules []string) {
	for _, v := range w.c.Take() {
		rules = append(rules, v.Rule)
	}
	return rules
}

// expect fails the test unless exactly these rules were broken.
func (w *world) expect(t *testing.T, what string, rules ...string) {
	t.Helper()
	if got := w.found(); fmt.Sprint(got) != fmt.Sprint(rules) {
		t.Errorf("%s: found %v, want %v", what, got, rules)
	}
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Generation: 1, Labels: map[string]string{}, Annotations: map[string]string{}}
}

// owned says whose an object is.
func owned(o, owner metav1.Object) {
	o.SetOwnerReferences([]metav1.OwnerReference{{UID: owner.GetUID(), Name: owner.GetName(), Controller: new(true)}})
}

// pod makes a ready pod.
func pod(name string, owner metav1.Object) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta(name)}
	owned(p, owner)
	isReady(p, true)
	return p
}

func isReady(p *corev1.Pod, yes bool) {
	status := corev1.ConditionFalse
	if yes {
		status = corev1.ConditionTrue
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
}

// deleted, ended and released return a later state of a pod.
func deleted(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_800_000_000, 0)}
	return p
}

func newDeployment(n int32, surge, unavailable int) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: meta("web"), Spec: appsv1.DeploymentSpec{Replicas: &n}}
	d.Spec.Strategy = appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: number(surge), MaxUnavailable: number(unavailable)},
	}
	return d
}

func number(n int) *intstr.IntOrString { return new(intstr.FromInt32(int32(n))) }

func settle(d *appsv1.Deployment) {
	n := *d.Spec.Replicas
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, AvailableReplicas: n}
}

func newReplicaSet(name string, n int32, owner metav1.Object) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{ObjectMeta: meta(name), Spec: appsv1.ReplicaSetSpec{Replicas: &n}}
	owned(rs, owner)
	return rs
}

func newJob(name string, parallelism, completions int32) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: meta(name)}
	j.Spec.Parallelism, j.Spec.Completions = &parallelism, &completions
	return j
}

// jobPod makes a running pod of a Job.
func jobPod(name string, j *batchv1.Job, index string) *corev1.Pod {
	p := pod(name, j)
	p.Finalizers = []string{batchv1.JobTrackingFinalizer}
	if index != "" {
		p.Annotations[batchv1.JobCompletionIndexAnnotation] = index
	}
	return p
}

func ended(p *corev1.Pod, phase corev1.PodPhase) *corev1.Pod {
	p = p.DeepCopy()
	p.Status.Phase = phase
	return p
}

func released(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	p.Finalizers = nil
	return p
}

func endJob(j *batchv1.Job, kind batchv1.JobConditionType) {
	j.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue}}
}
