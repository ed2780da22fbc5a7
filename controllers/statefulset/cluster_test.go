package statefulset

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"orrery/controllers/internal/slim"
	"orrery/kit"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

type setOption func(*appsv1.StatefulSet)

// newSet returns a StatefulSet as the server completes it.
func newSet(name string, replicas int32, opts ...setOption) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, RevisionHistoryLimit: new(int32(10)), ServiceName: "svc",
			PodManagementPolicy: appsv1.OrderedReadyPodManagement,
			Selector:            &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "img:1"}}},
			},
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType, WhenScaled: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
		},
	}
	rolling("1", 0)(set)
	for _, o := range opts {
		o(set)
	}
	return set
}

func rolling(maxUnavailable string, partition int32) setOption {
	limit := intstr.Parse(maxUnavailable)
	return func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{
			Type:          appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition, MaxUnavailable: &limit},
		}
	}
}

func strategy(kind appsv1.StatefulSetUpdateStrategyType) setOption {
	return func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: kind} }
}

func parallel(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }

func minReady(seconds int32) setOption {
	return func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = seconds }
}

func replicas(n int32) setOption { return func(s *appsv1.StatefulSet) { s.Spec.Replicas = &n } }

func from(start int32) setOption {
	return func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: start} }
}

func image(image string) setOption {
	return func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = image }
}

// bad makes the pods of a template such as never become ready.
func bad(s *appsv1.StatefulSet) { s.Spec.Template.Spec.NodeSelector = map[string]string{"no": "where"} }

func good(s *appsv1.StatefulSet) { s.Spec.Template.Spec.NodeSelector = nil }

func storing(templates ...string) setOption {
	return func(s *appsv1.StatefulSet) {
		for _, name := range templates {
			s.Spec.VolumeClaimTemplates = append(s.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": name}},
				Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
			})
		}
	}
}

func retention(whenDeleted, whenScaled appsv1.PersistentVolumeClaimRetentionPolicyType) setOption {
	return func(s *appsv1.StatefulSet) {
		s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: whenDeleted, WhenScaled: whenScaled}
	}
}

// kubelets play the kubelets of all nodes: pods start at once unless their template is bad, and stop after a second.
type kubelets struct {
	t    *testing.T
	api  *kittest.API
	live *client.Client

	mu      sync.Mutex // guards the fields below
	running map[string]types.UID
	held    bool // nothing starts
	faults  []string
}

func (k *kubelets) init(cc kit.ControllerContext) (bool, error) {
	k.live = cc.Live
	return true, kit.NewController(cc, kit.Objects(kit.Store[corev1.Pod](cc), k)).Watch(kit.For[corev1.Pod]()).Workers(4).Complete()
}

func (k *kubelets) Reconcile(ctx context.Context, cached *corev1.Pod) (kit.Result, error) {
	pod, err := client.Get[corev1.Pod](ctx, k.live, client.KeyOf(cached))
	if err != nil {
		return kit.Done, client.IgnoreNotFound(err)
	}
	switch {
	case pod.DeletionTimestamp != nil:
		stop := pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds-1) * time.Second)
		if left := time.Until(stop); left > 0 {
			return kit.After(left), nil
		}
		k.stop(pod)
		if len(pod.Finalizers) == 0 {
			k.api.Remove(k.t, pod)
		}
	case pod.Status.Phase == corev1.PodPending && pod.Spec.NodeName != "":
		return kit.Done, k.start(ctx, pod)
	}
	return kit.Done, nil
}

// start makes a pod run, unless it has gone or changed meanwhile.
func (k *kubelets) start(ctx context.Context, pod *corev1.Pod) error {
	next := pod.DeepCopy()
	makeReady(next)
	if _, err := client.UpdateStatus(ctx, k.live, next); err != nil {
		return err
	}
	k.note(pod)
	return nil
}

// schedule gives new pods a node at once, unless they are bad or nothing starts.
func (k *kubelets) schedule(r *kittest.Request) *kittest.Reaction {
	if r.Verb != "create" || r.Resource.Resource != "pods" || k.holding() {
		return nil
	}
	if _, nowhere, _ := unstructured.NestedMap(r.Object.Object, "spec", "nodeSelector"); !nowhere {
		_ = unstructured.SetNestedField(r.Object.Object, "node", "spec", "nodeName")
	}
	return nil
}

func (k *kubelets) holding() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held
}

func makeReady(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
}

// note notes that a pod runs. Two of one name at a time are what must never be.
func (k *kubelets) note(pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if other, ok := k.running[pod.Name]; ok && other != pod.UID {
		k.faults = append(k.faults, "two pods run as "+pod.Name)
	}
	k.running[pod.Name] = pod.UID
}

func (k *kubelets) stop(pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running[pod.Name] == pod.UID {
		delete(k.running, pod.Name)
	}
}

// hold makes new pods stay pending, or lets them start from now on.
func (k *kubelets) hold(on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = on
}

// cluster is an API with a controller and kubelets.
type cluster struct {
	*kittest.API
	t        *testing.T
	kubelets *kubelets
}

// newCluster returns a cluster in which the controller does not run yet.
func newCluster(t *testing.T, objs ...client.Object) *cluster {
	t.Helper()
	api := kittest.New(t, objs...)
	api.Slim(slim.Kinds())
	k := &kubelets{t: t, api: api, running: map[string]types.UID{}}
	api.React(k.schedule)
	return &cluster{API: api, t: t, kubelets: k}
}

// start runs the controller and kubelets, and lets everything happen that happens within three minutes.
func start(t *testing.T, objs ...client.Object) *cluster {
	t.Helper()
	c := newCluster(t, objs...)
	c.Run(t, c.kubelets.init)
	c.Run(t, Descriptor())
	c.Pass(3 * time.Minute)
	return c
}

func (c *cluster) set(name string) *appsv1.StatefulSet {
	c.t.Helper()
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if !c.Get(c.t, set) {
		c.t.Fatalf("StatefulSet %s is gone", name)
	}
	return set
}

// change does to the stored set what a user does.
func (c *cluster) change(name string, opts ...setOption) {
	c.t.Helper()
	set := c.set(name)
	for _, o := range opts {
		o(set)
	}
	c.Update(c.t, set)
}

func (c *cluster) pod(name string) *corev1.Pod {
	c.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if !c.Get(c.t, pod) {
		c.t.Fatalf("pod %s is gone", name)
	}
	return pod
}

func (c *cluster) changePod(name string, change func(*corev1.Pod)) {
	c.t.Helper()
	pod := c.pod(name)
	change(pod)
	c.Update(c.t, pod)
}

// pods returns the names of all pods, those that are going with a minus.
func (c *cluster) pods() string {
	c.t.Helper()
	var names []string
	for _, pod := range kittest.List[corev1.Pod](c.t, c.API, "default") {
		name := pod.Name
		if going(pod) {
			name = "-" + name
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// images returns the tags of all pods' images by ordinal: "0:1 1:2".
func (c *cluster) images() string {
	c.t.Helper()
	var out []string
	for _, pod := range kittest.List[corev1.Pod](c.t, c.API, "default") {
		_, ordinal, _ := parent(pod.Name)
		out = append(out, strconv.Itoa(ordinal)+":"+strings.TrimPrefix(pod.Spec.Containers[0].Image, "img:"))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (c *cluster) claim(name string) *corev1.PersistentVolumeClaim {
	c.t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if !c.Get(c.t, claim) {
		c.t.Fatalf("claim %s is gone", name)
	}
	return claim
}

func (c *cluster) revisions() []*appsv1.ControllerRevision {
	c.t.Helper()
	all := kittest.List[appsv1.ControllerRevision](c.t, c.API, "default")
	slices.SortFunc(all, func(a, b *appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return all
}

// events returns the messages of events with a reason.
func (c *cluster) events(reason string) (out []string) {
	for _, e := range c.Events() {
		if e.Reason == reason {
			out = append(out, e.Message)
		}
	}
	return out
}

// podWrites returns what was done to pods since it was asked last: "create web-0", "delete web-1".
func (c *cluster) podWrites() string {
	var out []string
	for _, w := range c.TakeWrites() {
		if verb, pod, ok := strings.Cut(w, " v1/pods default/"); ok {
			out = append(out, verb+" "+pod)
		}
	}
	return strings.Join(out, ", ")
}

// numbers returns replicas, ready, available, current and updated.
func (c *cluster) numbers(name string) [5]int32 {
	s := c.set(name).Status
	return [5]int32{s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas, s.UpdatedReplicas}
}
