package checker

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// rolled shows a Deployment of three pods that has settled.
func rolled(w *world, surge, unavailable int) (*appsv1.Deployment, *appsv1.ReplicaSet, []*corev1.Pod) {
	d := newDeployment(3, surge, unavailable)
	rs := newReplicaSet("web-1", 3, d)
	w.see(d, rs)
	pods := []*corev1.Pod{pod("a", rs), pod("b", rs), pod("c", rs)}
	for _, p := range pods {
		w.see(p)
	}
	settle(d)
	rs.Status.Replicas, rs.Status.ObservedGeneration = 3, 1
	w.see(rs, d)
	return d, rs, pods
}

func TestDeployments(t *testing.T) {
	w := newWorld()
	d, old, pods := rolled(w, 1, 1)
	next := newReplicaSet("web-2", 2, d)
	d.Generation++
	old.Spec.Replicas = new(int32(2))
	w.see(d, old, next)
	isReady(pods[0], false)
	w.see(deleted(pods[0]), pod("d", next))
	w.expect(t, "a rollout within its bounds")
	w.see(deleted(pods[1]), pod("e", next))
	w.expect(t, "three ready")
	w.see(deleted(pods[2]))
	w.expect(t, "two ready")
	w.gone(pods[0], pods[1], pods[2])
	w.expect(t, "the end of old pods")
	w.see(pod("f", old), pod("g", old))
	w.expect(t, "as many as the surge allows")
	w.see(pod("h", old))
	w.expect(t, "one too many, for a moment")
	w.pass(surgePatience + time.Second)
	w.expect(t, "one too many, for too long", "surge")

	w = newWorld()
	d, _, _ = rolled(w, 1, 0)
	d.Generation++
	w.see(d, newReplicaSet("web-2", 1, d))
	w.expect(t, "one more is asked for")
	w.see(newReplicaSet("web-3", 1, d))
	w.expect(t, "two more are asked for", "surge")

	w = newWorld()
	_, _, pods = rolled(w, 0, 1)
	isReady(pods[0], false)
	w.see(pods[0])
	w.expect(t, "one not ready")
	w.see(deleted(pods[1]))
	w.expect(t, "two not ready", "unavailability")
	w.see(pods[1])
	w.expect(t, "once is enough")

	w = newWorld()
	d, old, pods = rolled(w, 0, 1)
	d.Spec.Replicas, d.Generation, old.Spec.Replicas = new(int32(1)), 2, new(int32(1))
	w.see(d, old, deleted(pods[0]), deleted(pods[1]))
	w.expect(t, "scaled down")
	settle(d)
	d.Spec.Strategy.RollingUpdate = nil
	d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	old.Spec.Replicas = new(int32(0))
	w.see(d, old, deleted(pods[2]))
	w.expect(t, "recreated")
	next = newReplicaSet("web-2", 1, d)
	w.see(next)
	w.expect(t, "the old pod still runs")
	w.see(pod("new", next))
	w.expect(t, "and a new one, too", "recreate")
}

// TestANumberTakenBack has a user ask for one pod and then for three again, before the ReplicaSet has looked: the status of
// the Deployment is right all the time.
func TestANumberTakenBack(t *testing.T) {
	for name, tc := range map[string]struct {
		observed int64
		want     []string
	}{
		"while it is carried out": {observed: 1},
		"and it is over":          {observed: 3, want: []string{"unavailability"}},
	} {
		w := newWorld()
		d, rs, pods := rolled(w, 0, 1)
		d.Spec.Replicas, d.Generation, rs.Spec.Replicas, rs.Generation = new(int32(1)), 2, new(int32(1)), 2
		w.see(d, rs)
		d.Spec.Replicas, d.Generation, rs.Spec.Replicas, rs.Generation = new(int32(3)), 3, new(int32(3)), 3
		rs.Status.ObservedGeneration = tc.observed
		settle(d)
		w.see(rs, d, deleted(pods[0]), deleted(pods[1]))
		w.expect(t, name, tc.want...)
	}
}

func TestReplicaSets(t *testing.T) {
	w := newWorld()
	_, rs, _ := rolled(w, 5, 0)
	rs.Spec.Replicas, rs.Generation = new(int32(4)), 2
	w.see(rs, pod("d", rs))
	w.expect(t, "scaled up")
	rs.Spec.Replicas, rs.Generation = new(int32(2)), 3
	w.see(rs)
	w.expect(t, "not yet scaled down")
	w.see(pod("e", rs))
	w.expect(t, "five where four were wanted", "replicas")
	if v := w.c.Summary(); !strings.Contains(v, "5 pods, 1 ReplicaSets, 1 Deployments") {
		t.Errorf("summary %q", v)
	}
}

func newStatefulSet(n int32, policy appsv1.PodManagementPolicyType) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: meta("db"), Spec: appsv1.StatefulSetSpec{Replicas: &n, PodManagementPolicy: policy}}
}

func ordinal(s *appsv1.StatefulSet, name, index string) *corev1.Pod {
	p := pod(name, s)
	p.Labels[appsv1.PodIndexLabel] = index
	return p
}

func TestStatefulSets(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy appsv1.PodManagementPolicyType
		play   func(w *world, s *appsv1.StatefulSet)
		want   []string
	}{
		{"in order", "", func(w *world, s *appsv1.StatefulSet) { w.see(ordinal(s, "db-0", "0"), ordinal(s, "db-1", "1")) }, nil},
		{"out of order", "", func(w *world, s *appsv1.StatefulSet) {
			p := ordinal(s, "db-0", "0")
			isReady(p, false)
			w.see(p, ordinal(s, "db-1", "1"))
		}, []string{"order"}},
		{"in parallel", appsv1.ParallelPodManagement, func(w *world, s *appsv1.StatefulSet) { w.see(ordinal(s, "db-1", "1")) }, nil},
		{"twice", appsv1.ParallelPodManagement, func(w *world, s *appsv1.StatefulSet) {
			p := ordinal(s, "db-1", "1")
			p.UID = "other"
			w.see(ordinal(s, "db-1", "1"), p)
		}, []string{"ordinal"}},
		{"with another's label", appsv1.ParallelPodManagement, func(w *world, s *appsv1.StatefulSet) { w.see(ordinal(s, "db-1", "0")) }, []string{"identity"}},
		{"with a strange name", appsv1.ParallelPodManagement, func(w *world, s *appsv1.StatefulSet) { w.see(ordinal(s, "db-x", "")) }, []string{"identity"}},
		{"too many", appsv1.ParallelPodManagement, func(w *world, s *appsv1.StatefulSet) { w.see(ordinal(s, "db-3", "3")) }, []string{"ordinal"}},
		{"from another start", appsv1.ParallelPodManagement, func(w *world, s *appsv1.StatefulSet) {
			s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5}
			w.see(s, ordinal(s, "db-5", "5"), ordinal(s, "db-7", "7"))
		}, nil},
		{"below the start", appsv1.ParallelPodManagement, func(w *world, s *appsv1.StatefulSet) {
			s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5}
			w.see(s, ordinal(s, "db-4", "4"))
		}, []string{"ordinal"}},
		{"not settled though the status says so", "", func(w *world, s *appsv1.StatefulSet) {
			going := deleted(ordinal(s, "db-2", "2"))
			w.see(ordinal(s, "db-0", "0"), ordinal(s, "db-1", "1"), going)
			s.Status = appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: 3, ReadyReplicas: 3}
			w.see(s, deleted(ordinal(s, "db-1", "1")))
		}, nil},
		{"two down", "", func(w *world, s *appsv1.StatefulSet) {
			pods := []*corev1.Pod{ordinal(s, "db-0", "0"), ordinal(s, "db-1", "1"), ordinal(s, "db-2", "2")}
			w.see(pods[0], pods[1], pods[2])
			s.Status = appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: 3, ReadyReplicas: 3}
			w.see(s, deleted(pods[2]))
			if got := w.found(); len(got) > 0 {
				w.c.violated("one may be down", s, nil, "%v", got)
			}
			w.see(deleted(pods[1]))
		}, []string{"unavailability"}},
	} {
		w := newWorld()
		s := newStatefulSet(3, tc.policy)
		w.see(s)
		tc.play(w, s)
		w.expect(t, tc.name, tc.want...)
	}
}

func daemonPod(d *appsv1.DaemonSet, name, node, revision string) *corev1.Pod {
	p := pod(name, d)
	p.Labels[appsv1.ControllerRevisionHashLabelKey] = revision
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Values: []string{node}}}}},
	}}}
	return p
}

func TestDaemonSets(t *testing.T) {
	begin := func(surge, unavailable int) (*world, *appsv1.DaemonSet, *corev1.Pod) {
		w, d := newWorld(), &appsv1.DaemonSet{ObjectMeta: meta("agent")}
		d.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxSurge: number(surge), MaxUnavailable: number(unavailable)}
		p := daemonPod(d, "a", "n1", "1")
		w.see(d, p, daemonPod(d, "b", "n2", "1"))
		d.Status = appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 2, CurrentNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberAvailable: 2}
		w.see(d)
		return w, d, p
	}
	w, d, p := begin(0, 1)
	w.see(deleted(p), daemonPod(d, "c", "n1", "2"))
	w.expect(t, "a rolling update")
	w.see(daemonPod(d, "e", "n2", "2"))
	w.expect(t, "beside the old pod", "node")
	w, d, _ = begin(1, 0)
	w.see(daemonPod(d, "c", "n1", "2"))
	w.expect(t, "a surge")
	w.see(daemonPod(d, "e", "n1", "3"))
	w.expect(t, "three on a node", "node")
	w.see(daemonPod(d, "f", "n2", "1"))
	w.expect(t, "two of one revision", "revision")
	w, _, p = begin(1, 0)
	w.see(deleted(p))
	w.expect(t, "none may be down", "unavailability")
	w, d, p = begin(0, 1)
	w.see(ended(p, corev1.PodFailed), daemonPod(d, "c", "n1", "1"))
	w.expect(t, "a failed pod is replaced")
}

func TestBudgets(t *testing.T) {
	begin := func(spec policyv1.PodDisruptionBudgetSpec) (*world, *policyv1.PodDisruptionBudget, []*corev1.Pod) {
		w := newWorld()
		_, _, pods := rolled(w, 5, 3)
		for _, p := range pods {
			p.Labels["app"] = "web"
			w.see(p)
		}
		spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		b := &policyv1.PodDisruptionBudget{ObjectMeta: meta("budget"), Spec: spec}
		return w, b, pods
	}
	percent := intstr.FromString("60%")
	for name, tc := range map[string]struct {
		spec    policyv1.PodDisruptionBudgetSpec
		allowed int32
	}{
		"at least one":                {policyv1.PodDisruptionBudgetSpec{MinAvailable: number(1)}, 2},
		"at least sixty in a hundred": {policyv1.PodDisruptionBudgetSpec{MinAvailable: &percent}, 1},
		"at most one less":            {policyv1.PodDisruptionBudgetSpec{MaxUnavailable: number(1)}, 1},
	} {
		w, b, pods := begin(tc.spec)
		b.Status.DisruptionsAllowed = tc.allowed
		w.see(b)
		w.pass(time.Minute)
		w.expect(t, name)
		isReady(pods[0], false)
		w.see(pods[0])
		w.pass(time.Second)
		w.pass(budgetPatience)
		w.expect(t, name+", for a moment")
		w.pass(2 * time.Second)
		w.expect(t, name+", for too long", "budget")
	}
	w, b, pods := begin(policyv1.PodDisruptionBudgetSpec{MinAvailable: number(1)})
	b.Status.DisruptionsAllowed = 2
	w.see(b, deleted(pods[0]))
	w.c.Disturbed(w.now.Add(time.Minute))
	w.pass(time.Minute + budgetPatience)
	w.expect(t, "while nothing works")
	b.Status.DisruptionsAllowed = 1
	w.see(b)
	w.pass(time.Hour)
	w.expect(t, "corrected in time")
	b.Status.DisruptedPods = map[string]metav1.Time{pods[1].Name: {}}
	w.see(b)
	w.pass(budgetPatience + 2*time.Second)
	w.expect(t, "a pod that is being evicted is counted", "budget")
}

func TestAViolationShowsWhatHappened(t *testing.T) {
	w := newWorld()
	_, rs, _ := rolled(w, 5, 0)
	for range 40 {
		w.see(rs)
	}
	past := pod("past", rs)
	past.Status.Phase = corev1.PodSucceeded
	w.see(past)
	w.gone(past)
	w.see(pod("extra", rs))
	all := w.c.Take()
	if len(all) != 1 {
		t.Fatalf("found %v", all)
	}
	text := all[0].String()
	for _, want := range []string{"VIOLATION replicas: ReplicaSet ns/web-1: 4 pods, asked for 3 at most", "Pod ns/extra @50: Running ready=true", "ReplicaSet ns/web-1 @47: asks for 3", "Pod ns/past @49: is gone"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "ReplicaSet ns/web-1 @"); n != remembered {
		t.Errorf("%d changes are remembered, want %d", n, remembered)
	}
}

func TestEvictionsLeaveWhatTheBudgetAsksFor(t *testing.T) {
	w := newWorld()
	_, _, pods := rolled(w, 5, 3)
	b := &policyv1.PodDisruptionBudget{ObjectMeta: meta("budget"), Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: number(2), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}}
	b.Labels[OnlyEvictions] = "true"
	w.see(b)
	for _, p := range pods {
		p.Labels["app"] = "web"
		w.see(p)
	}
	w.see(deleted(pods[0]))
	w.expect(t, "one is evicted")
	w.see(deleted(pods[1]))
	w.expect(t, "and another", "eviction")
}

func TestUnsettled(t *testing.T) {
	w := newWorld()
	d, rs, pods := rolled(w, 0, 1)
	rs.Status.ReadyReplicas = 3
	w.see(rs)
	if got := w.c.Unsettled(); len(got) > 0 {
		t.Errorf("settled: %v", got)
	}
	d.Generation++
	w.see(d, deleted(pods[0]))
	w.gone(pods[0])
	j := newJob("j", 1, 1)
	cj := newCronJob(batchv1.AllowConcurrent)
	cj.Status.Active = []corev1.ObjectReference{{Name: "j"}}
	w.see(j, cj)
	if got := strings.Join(w.c.Unsettled(), ","); !strings.Contains(got, "CronJob ns/nightly") {
		t.Errorf("unsettled: %v", got)
	}
	w.gone(cj)
	got := w.c.Unsettled()
	if want := "Deployment ns/web,Job ns/j,ReplicaSet ns/web-1"; strings.Join(got, ",") != want {
		t.Errorf("unsettled: %v, want %s", got, want)
	}
	if lines := w.c.Show(got[:1]); len(lines) == 0 || !strings.Contains(lines[len(lines)-1], "observed 1 of 2") {
		t.Errorf("shown: %q", lines)
	}
}
