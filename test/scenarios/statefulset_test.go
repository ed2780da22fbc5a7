package scenarios

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"orrery/hack/localcluster/cluster"
)

// statefulSet describes a StatefulSet whose pods run a fake image.
func statefulSet(name string, replicas int32, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	d := deployment(name, replicas)
	grace := int64(1)
	d.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.StatefulSetSpec{Replicas: &replicas, Selector: d.Spec.Selector, Template: d.Spec.Template, ServiceName: name},
	}
	for _, c := range change {
		c(set)
	}
	return set
}

func parallelPods(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }

func slowPods(s *appsv1.StatefulSet) {
	s.Spec.Template.Annotations = map[string]string{"localcluster.orrery/start-after": "1500ms"}
}

func rollingBy(maxUnavailable int, partition int32) func(*appsv1.StatefulSet) {
	limit := intstr.FromInt(maxUnavailable)
	return func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{
			Type:          appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition, MaxUnavailable: &limit},
		}
	}
}

func withClaims(whenDeleted, whenScaled appsv1.PersistentVolumeClaimRetentionPolicyType, templates ...string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: whenDeleted, WhenScaled: whenScaled}
		for _, name := range templates {
			s.Spec.VolumeClaimTemplates = append(s.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			})
		}
	}
}

func (e *env) statefulSet(t *testing.T, namespace, name string) *appsv1.StatefulSet {
	t.Helper()
	return must(e.Client().AppsV1().StatefulSets(namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
}

// setSettled is nil once a set has so many pods, all available, and so many of them of its present template.
func (e *env) setSettled(t *testing.T, namespace, name string, replicas, updated int32) error {
	t.Helper()
	set := e.statefulSet(t, namespace, name)
	s := set.Status
	if s.ObservedGeneration < set.Generation || s.Replicas != replicas || s.AvailableReplicas != replicas || s.UpdatedReplicas != updated {
		return fmt.Errorf("%s: generation %d, status %+v", name, set.Generation, s)
	}
	return nil
}

// bind gives every claim of a namespace a volume, which the controllers of volumes would do.
func (e *env) bind(t *testing.T, namespace string) error {
	t.Helper()
	claims := e.Client().CoreV1().PersistentVolumeClaims(namespace)
	for _, claim := range must(claims.List(t.Context(), metav1.ListOptions{}))(t).Items {
		if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
			continue
		}
		volume := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv-" + string(claim.UID)},
			Spec: corev1.PersistentVolumeSpec{
				AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests,
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}},
				ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: claim.Name, UID: claim.UID},
			},
		}
		if _, err := e.Client().CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
			return err
		}
		claim.Spec.VolumeName = volume.Name
		claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		bound, err := claims.Update(t.Context(), &claim, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		bound.Status.Phase = corev1.ClaimBound
		if _, err := claims.UpdateStatus(t.Context(), bound, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// TestStatefulSetLife walks a set with storage through what its owner does with kubectl.
func TestStatefulSetLife(t *testing.T) {
	t.Parallel()
	e := withOrrery(t, 3)
	ns := e.namespace(t, "life")
	const keep, drop = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	must(e.Client().AppsV1().StatefulSets(ns).Create(t.Context(), statefulSet("db", 3, withClaims(keep, drop, "data")), metav1.CreateOptions{}))(t)
	eventually(t, "three pods with claims", func() error { return errors.Join(e.bind(t, ns), e.setSettled(t, ns, "db", 3, 3)) })
	for i := range 3 {
		e.hasIdentity(t, ns, "db", i)
	}
	first := e.statefulSet(t, ns, "db").Status.CurrentRevision

	e.kubectl(t, "-n", ns, "set", "image", "statefulset/db", "c=fake:2")
	e.kubectl(t, "-n", ns, "rollout", "status", "statefulset/db", "--timeout=2m")
	e.kubectl(t, "-n", ns, "rollout", "undo", "statefulset/db")
	e.kubectl(t, "-n", ns, "rollout", "status", "statefulset/db", "--timeout=2m")
	if got := e.statefulSet(t, ns, "db").Status.CurrentRevision; got != first {
		t.Errorf("after undo the revision is %s, want the first one, %s", got, first)
	}
	if history := e.kubectl(t, "-n", ns, "rollout", "history", "statefulset/db"); len(strings.Fields(history)) < 2 || !strings.Contains(history, "3") {
		t.Errorf("history:\n%s", history)
	}

	before := must(e.Client().CoreV1().Pods(ns).Get(t.Context(), "db-1", metav1.GetOptions{}))(t)
	e.kubectl(t, "-n", ns, "patch", "pod", "db-1", "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Failed","reason":"Evicted"}}`)
	eventually(t, "an evicted pod is replaced", func() error {
		pod, err := e.Client().CoreV1().Pods(ns).Get(t.Context(), "db-1", metav1.GetOptions{})
		if err == nil && pod.UID == before.UID {
			err = errors.New("it is still there")
		}
		return errors.Join(err, e.setSettled(t, ns, "db", 3, 3))
	})

	e.kubectl(t, "-n", ns, "scale", "statefulset/db", "--replicas=1")
	eventually(t, "one pod, and the claims of the others go with them", func() error {
		err := e.setSettled(t, ns, "db", 1, 1)
		for i, want := range []bool{false, true, true} {
			claim := must(e.Client().CoreV1().PersistentVolumeClaims(ns).Get(t.Context(), fmt.Sprintf("data-db-%d", i), metav1.GetOptions{}))(t)
			err = errors.Join(err, differ(claim.Name+" going", claim.DeletionTimestamp != nil, want))
		}
		return err
	})
	reasons := strings.Fields(e.kubectl(t, "-n", ns, "get", "events", "--field-selector=involvedObject.kind=StatefulSet", "-o", "jsonpath={.items[*].reason}"))
	if !slices.Contains(reasons, "SuccessfulCreate") || !slices.Contains(reasons, "SuccessfulDelete") {
		t.Errorf("events %v", reasons)
	}
}

// hasIdentity checks what tells a pod of a set from the others.
func (e *env) hasIdentity(t *testing.T, namespace, set string, ordinal int) {
	t.Helper()
	name := fmt.Sprintf("%s-%d", set, ordinal)
	pod := must(e.Client().CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
	claim := ""
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			claim = v.PersistentVolumeClaim.ClaimName
		}
	}
	if pod.Labels["statefulset.kubernetes.io/pod-name"] != name || pod.Labels["apps.kubernetes.io/pod-index"] != fmt.Sprint(ordinal) ||
		pod.Labels["controller-revision-hash"] == "" || pod.Spec.Hostname != name || pod.Spec.Subdomain != set || claim != "data-"+name {
		t.Errorf("%s has labels %v, host name %s.%s and claim %s", name, pod.Labels, pod.Spec.Hostname, pod.Spec.Subdomain, claim)
	}
}

// TestStatefulSetHandOver stops one controller manager in the middle of updates and lets the other finish.
func TestStatefulSetHandOver(t *testing.T) {
	own(t, "changes the controller manager")
	for _, order := range [][2]cluster.ManagerKind{{cluster.Upstream, cluster.Orrery}, {cluster.Orrery, cluster.Upstream}} {
		t.Run(fmt.Sprintf("%s to %s", order[0], order[1]), func(t *testing.T) {
			t.Parallel()
			handOverSets(t, order[0], order[1])
		})
	}
}

func handOverSets(t *testing.T, from, to cluster.ManagerKind) {
	e := start(t, cluster.Options{Nodes: 4, Untaint: true, ControllerManager: from, CMArgs: append([]string{"-v=2"}, raised...)})
	if err := e.WaitUsable(timeout(t, 2*patience)); err != nil {
		t.Fatal(err)
	}
	ns := e.namespace(t, "sets")
	sizes := map[string]int32{"ordered": 5, "held": 6, "parallel": 8, "scaled": 5}
	for name, opts := range map[string][]func(*appsv1.StatefulSet){
		"ordered": nil, "held": {parallelPods, rollingBy(1, 2)}, "parallel": {parallelPods, rollingBy(2, 0)}, "scaled": nil,
	} {
		must(e.Client().AppsV1().StatefulSets(ns).Create(t.Context(), statefulSet(name, sizes[name], append(opts, slowPods)...), metav1.CreateOptions{}))(t)
	}
	eventually(t, "all sets", func() (err error) {
		for name, n := range sizes {
			err = errors.Join(err, e.setSettled(t, ns, name, n, n))
		}
		return err
	})
	old := e.podUIDs(t, ns)
	for _, name := range []string{"ordered", "held", "parallel"} {
		e.kubectl(t, "-n", ns, "set", "image", "statefulset/"+name, "c=fake:2")
	}
	e.kubectl(t, "-n", ns, "scale", "statefulset/scaled", "--replicas=1")
	eventually(t, "updates are under way", func() (err error) {
		for _, name := range []string{"ordered", "held", "parallel"} {
			if e.statefulSet(t, ns, name).Status.UpdatedReplicas < 1 {
				err = errors.Join(err, fmt.Errorf("%s has not begun", name))
			}
		}
		return err
	})
	e.stopManager(t)
	if e.setSettled(t, ns, "parallel", 8, 8) == nil || e.setSettled(t, ns, "ordered", 5, 5) == nil {
		t.Error("the updates were already over: nothing was handed over")
	}
	replaced, revisions := e.podUIDs(t, ns), e.revisionNames(t, ns)

	e.manage(t, to, raised...)
	eventually(t, "the updates end", func() error {
		return errors.Join(e.setSettled(t, ns, "ordered", 5, 5), e.setSettled(t, ns, "held", 6, 4), e.setSettled(t, ns, "parallel", 8, 8), e.setSettled(t, ns, "scaled", 1, 1))
	})
	if got := e.revisionNames(t, ns); !same(got, revisions) || len(got) != 7 {
		t.Errorf("revisions are %v, want %v", got, revisions)
	}
	for pod, uid := range e.podUIDs(t, ns) {
		stays := pod == "held-0" || pod == "held-1" || pod == "scaled-0"
		if stays != (uid == old[pod]) || !stays && replaced[pod] != "" && replaced[pod] != old[pod] && uid != replaced[pod] {
			t.Errorf("pod %s was %s, then %s, now %s", pod, old[pod], replaced[pod], uid)
		}
	}
	e.seedOldRevision(t, ns, "ordered")
	e.setsStay(t, from, to)
}

func (e *env) podUIDs(t *testing.T, namespace string) map[string]string {
	t.Helper()
	uids := map[string]string{}
	for _, pod := range must(e.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}))(t).Items {
		if pod.DeletionTimestamp == nil {
			uids[pod.Name] = string(pod.UID)
		}
	}
	return uids
}

func (e *env) revisionNames(t *testing.T, namespace string) (names []string) {
	t.Helper()
	for _, r := range must(e.Client().AppsV1().ControllerRevisions(namespace).List(t.Context(), metav1.ListOptions{}))(t).Items {
		names = append(names, r.Name)
	}
	return slices.Sorted(slices.Values(names))
}

// seedOldRevision stops the manager and writes the revision that a set has as Kubernetes 1.33 wrote it, with a null where
// later versions write nothing.
func (e *env) seedOldRevision(t *testing.T, namespace, set string) {
	t.Helper()
	e.stopManager(t)
	revisions := e.Client().AppsV1().ControllerRevisions(namespace)
	name := e.statefulSet(t, namespace, set).Status.UpdateRevision
	r := must(revisions.Get(t.Context(), name, metav1.GetOptions{}))(t)
	data := strings.Replace(string(r.Data.Raw), `"metadata":{`, `"metadata":{"creationTimestamp":null,`, 1)
	if data == string(r.Data.Raw) {
		t.Fatalf("data of %s: %s", name, data)
	}
	if err := revisions.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.UID, r.ResourceVersion, r.CreationTimestamp = "", "", metav1.Time{}
	r.Data.Raw = []byte(data)
	must(revisions.Create(t.Context(), r, metav1.CreateOptions{}))(t)
}

// setsStay lets the managers take turns over sets that are as they are to be, and checks that neither writes anything.
func (e *env) setsStay(t *testing.T, from, to cluster.ManagerKind) {
	t.Helper()
	versions := func() string {
		return e.kubectl(t, "get", "statefulsets,controllerrevisions,pods,persistentvolumeclaims", "-n", "sets",
			"-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`)
	}
	before := versions()
	for i, next := range []cluster.ManagerKind{from, to} {
		if i > 0 {
			e.stopManager(t)
		}
		e.manage(t, next, raised...)
		eventually(t, string(next)+" leads", func() error {
			if e.holder(t) == "" {
				return errors.New("nobody holds the lease")
			}
			return nil
		})
		time.Sleep(5 * time.Second) // for all that it might want to write
		if after := versions(); after != before {
			t.Errorf("%s had nothing to do; there was\n%s\nand is\n%s", next, before, after)
		}
	}
}
