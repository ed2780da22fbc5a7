package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// statefulSetProgram rolls, scales, breaks, deletes and remakes a StatefulSet.
func statefulSetProgram(r *rand.Rand) program {
	set := drawStatefulSet(r)
	p := program{steps: statefulSetPrelude(r, set)}
	p.steps = append(p.steps, created("statefulsets", set))
	for range 4 + r.IntN(5) {
		p.steps = append(p.steps, statefulSetStep(r, set))
	}
	if chance(r, 2) {
		p.steps = append(p.steps, setDeleted(set, drawPropagation(r)))
		if chance(r, 2) {
			again := drawStatefulSet(r)
			if !eager(set) {
				again.Spec.PodManagementPolicy = set.Spec.PodManagementPolicy
			}
			// Orphans that lack a volume are treated differently; see the README, "a pod that lacks a volume".
			again.Spec.VolumeClaimTemplates, again.Spec.Template.Spec.NodeName = set.Spec.VolumeClaimTemplates, set.Spec.Template.Spec.NodeName
			p.steps = append(p.steps, created("statefulsets", again), statefulSetStep(r, again), statefulSetStep(r, again))
		}
	}
	return p
}

// eager reports whether a set is parallel. What is refused for one pod of such a set holds back no other one, and surplus pods
// go nevertheless; see the README, "in a parallel StatefulSet" and "a parallel StatefulSet deletes".
func eager(set *appsv1.StatefulSet) bool {
	return set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement
}

func drawPropagation(r *rand.Rand) metav1.DeletionPropagation {
	return pick(r, "", metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground)
}

// setDeleted is the step that deletes the set. If it waits for its pods, none hangs, as upstream makes a revision anew whenever
// the garbage collector has deleted it meanwhile; see the README, "a StatefulSet that is being deleted creates no revision". Nor
// may the pods of a parallel set keep their names from those of its successor; see eager.
func setDeleted(set *appsv1.StatefulSet, how metav1.DeletionPropagation) step {
	all := deleted("statefulsets", "db", how)
	if how != metav1.DeletePropagationForeground && !eager(set) {
		return all
	}
	return step{text: all.text + ", and no pod hangs", do: func(ctx context.Context, s *subject) error {
		err := all.do(ctx, s)
		time.Sleep(time.Second)
		return errors.Join(err, s.patchAll(ctx, "pods", atEase))
	}}
}

func drawStatefulSet(r *rand.Rand) *appsv1.StatefulSet {
	replicas := int32(r.IntN(6))
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas:            &replicas,
		ServiceName:         pick(r, "", "db"),
		Selector:            &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		Template:            template("db", pick(r, runs, runs, runs, stay, hang)),
		PodManagementPolicy: pick(r, appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement),
	}}
	if chance(r, 4) {
		set.Annotations = map[string]string{"team": "storage"}
	}
	if chance(r, 3) {
		set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: pick[int32](r, 0, 1, 2, 3, 2147483640)}
	}
	if chance(r, 6) {
		set.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"db", "sql"}}}}
	}
	if chance(r, 12) {
		set.Spec.Template.Finalizers = []string{"parity/keep"}
	}
	switch r.IntN(4) {
	case 0:
		set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	case 1, 2:
		partition, most := int32(pick(r, 0, 0, 0, 1, 2, 9)), drawUnavailable(r)
		set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition, MaxUnavailable: &most}}
	}
	if chance(r, 3) {
		limit := int32(r.IntN(3))
		set.Spec.RevisionHistoryLimit = &limit
	}
	if chance(r, 4) {
		set.Spec.MinReadySeconds = 2
	}
	if chance(r, 8) && !eager(set) {
		set.Spec.Template.Spec.ServiceAccountName = "robot"
	}
	if chance(r, 2) {
		addClaims(r, set)
	}
	return set
}

func drawUnavailable(r *rand.Rand) intstr.IntOrString {
	return pick(r, intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromInt32(3), intstr.FromString("1%"), intstr.FromString("50%"), intstr.FromString("100%"))
}

// statefulSetPrelude is what users may have made before the set.
func statefulSetPrelude(r *rand.Rand, set *appsv1.StatefulSet) (steps []step) {
	if set.Spec.ServiceName != "" && chance(r, 8) {
		steps = append(steps, created("services", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "db"}, Ports: []corev1.ServicePort{{Name: "sql", Port: 5432}}}}))
	}
	if chance(r, 5) {
		steps = append(steps, foreignPod(r, set))
	}
	if chance(r, 6) {
		steps = append(steps, created("statefulsets", neighbour(r)))
	}
	if len(set.Spec.VolumeClaimTemplates) > 0 && chance(r, 3) {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("data-db-%d", r.IntN(4))}, Spec: claimSpec()}
		steps = append(steps, created("persistentvolumeclaims", c))
		if chance(r, 2) && mayWait(set) {
			steps = append(steps, hanging(c.Name))
		}
	}
	if chance(r, 6) && !eager(set) {
		steps = append(steps, limited(r, set))
	}
	return steps
}

// foreignPod is the step that creates a pod which has a name that a set may give, and labels that it may select.
func foreignPod(r *rand.Rand, set *appsv1.StatefulSet) step {
	t := template(pick(r, "db", "other"), runs)
	name := pick(r, "db-17", "db-x", "db-1-2")
	if !eager(set) && len(set.Spec.VolumeClaimTemplates) == 0 {
		name = pick(r, "db-0", "db-1", "db-2", "db-7", name)
	}
	if chance(r, 3) {
		t.Labels[appsv1.StatefulSetPodNameLabel] = name
	}
	return created("pods", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: t.Labels, Annotations: t.Annotations}, Spec: t.Spec})
}

// neighbour is a set whose pods and revisions the set selects, too, and whose pods' names begin like those of the set; or whose
// name is too long for a label. It does not select what the set leaves behind: upstream adopts that at once, Orrery when it next
// looks at the neighbour.
func neighbour(r *rand.Rand) *appsv1.StatefulSet {
	replicas, t := int32(2), template("db", runs)
	t.Labels["tier"] = "next"
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: pick(r, "db-1", "db-0-x", "d", strings.Repeat("long", 13), strings.Repeat("long", 15))},
		Spec:       appsv1.StatefulSetSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: t.Labels}, Template: t},
	}
}

// limited is the step that creates a quota. Nobody but the server's admission counts what it limits, so objects that are
// deleted go on counting.
func limited(r *rand.Rand, set *appsv1.StatefulSet) step {
	what, n := corev1.ResourcePods, 1+r.IntN(3)
	if len(set.Spec.VolumeClaimTemplates) > 0 && chance(r, 2) {
		what = corev1.ResourcePersistentVolumeClaims
	}
	hard := corev1.ResourceList{what: *resource.NewQuantity(int64(n), resource.DecimalSI)}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	return step{text: fmt.Sprintf("create a quota of %d %s", n, what), do: func(ctx context.Context, s *subject) error {
		if err := s.create(ctx, "resourcequotas", quota); err != nil {
			return err
		}
		return s.patch(ctx, "resourcequotas", "few", fmt.Sprintf(`{"status":{"hard":{%q:"%d"},"used":{%q:"0"}}}`, what, n, what), "status")
	}}
}

func statefulSetStep(r *rand.Rand, set *appsv1.StatefulSet) step {
	if len(set.Spec.VolumeClaimTemplates) > 0 && chance(r, 4) {
		return claimStep(r, set)
	}
	from := r.IntN(3)
	switch r.IntN(16) {
	case 0, 1:
		return patched("statefulsets", "db", `{"spec":{"replicas":%d}}`, r.IntN(7))
	case 2, 3, 4:
		return patched("statefulsets", "db", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"fake:%d"}]}}}}`, 1+r.IntN(4))
	case 5:
		return patched("statefulsets", "db", `{"spec":{"template":{"metadata":{"annotations":{"parity/acts":"%s"}}}}}`, pick(r, runs, stay, hang))
	case 6:
		return strategyStep(r)
	case 7, 8:
		return acted(from, from+1+r.IntN(3), "become ready", ready)
	case 9:
		return ailingStep(r)
	case 10, 11:
		return memberStep(r, set)
	case 12, 13:
		return revisionStep(r, "statefulsets", "db")
	case 14:
		return setStatusStep(r)
	default:
		return reliefStep(r)
	}
}

// ailingStep lets pods end or be no longer ready.
func ailingStep(r *rand.Rand) step {
	from := r.IntN(4)
	to := from + 1 + r.IntN(2)
	switch r.IntN(6) {
	case 0:
		return acted(from, to, "fail", failed(1))
	case 1:
		return acted(from, to, "succeed", succeeded)
	case 2:
		return acted(from, to, "are evicted", func(pod *corev1.Pod) {
			failed(137)(pod)
			pod.Status.Reason, pod.Status.Message = "Evicted", "The node was low on resource: memory."
		})
	case 3:
		return acted(from, to, "lose all conditions but one", func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
		})
	case 4:
		return acted(from, to, "are ready since no time", readySinceNoTime)
	default:
		return acted(from, to, "stop being ready", running)
	}
}

func strategyStep(r *rand.Rand) step {
	switch r.IntN(7) {
	case 0:
		return patched("statefulsets", "db", `{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}`)
	case 1, 2:
		return patched("statefulsets", "db", `{"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":%d}}}}`, r.IntN(5))
	case 3:
		most := drawUnavailable(r)
		text := toJSON(most)
		return patched("statefulsets", "db", `{"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":%s}}}}`, text)
	case 4:
		return patched("statefulsets", "db", `{"spec":{"ordinals":{"start":%d}}}`, r.IntN(5))
	case 5:
		return patched("statefulsets", "db", `{"spec":{"minReadySeconds":%d}}`, r.IntN(4))
	default:
		return patched("statefulsets", "db", `{"spec":{"revisionHistoryLimit":%d}}`, r.IntN(3))
	}
}

// memberStep is what a user may do to a pod.
func memberStep(r *rand.Rand, set *appsv1.StatefulSet) step {
	pod := fmt.Sprintf("db-%d", r.IntN(5))
	switch r.IntN(10) {
	case 0, 1:
		return deleted("pods", pod, "")
	case 2:
		return patched("pods", pod, `{"metadata":{"labels":{"app":"mine"}}}`)
	case 3:
		return patched("pods", pod, `{"metadata":{"labels":{"statefulset.kubernetes.io/pod-name":null,"apps.kubernetes.io/pod-index":null}}}`)
	case 4:
		return patched("pods", pod, `{"metadata":{"labels":{"statefulset.kubernetes.io/pod-name":"db-9","apps.kubernetes.io/pod-index":"9"}}}`)
	case 5:
		return patched("pods", pod, `{"metadata":{"labels":{"controller-revision-hash":%s}}}`, pick(r, "null", `"db-123"`))
	case 6:
		return patched("pods", pod, `{"metadata":{"ownerReferences":null}}`)
	case 7:
		return patched("pods", pod, `{"metadata":{"finalizers":["parity/keep"]}}`)
	case 8:
		return step{text: "force deletion of " + pod, do: func(ctx context.Context, s *subject) error {
			return s.client.CoreV1().Pods(s.namespace).Delete(ctx, pod, *metav1.NewDeleteOptions(0))
		}}
	default:
		return foreignPod(r, set)
	}
}

// setStatusStep is a user who writes the status of a set, which the controller reads in parts.
func setStatusStep(r *rand.Rand) step {
	status := pick(r,
		`{"currentRevision":"db-none"}`, `{"currentRevision":null,"updateRevision":null}`, `{"collisionCount":3}`, `{"collisionCount":null}`,
		`{"currentReplicas":4}`, `{"replicas":0,"readyReplicas":0,"updatedReplicas":7}`, `{"observedGeneration":0}`,
		`{"conditions":[{"type":"Mine","status":"True"}]}`)
	return patchedStatus("statefulsets", "db", `{"status":%s}`, status)
}

// reliefStep takes away what pods and sets may wait for.
func reliefStep(r *rand.Rand) step {
	switch r.IntN(5) {
	case 0, 1:
		return relieved("statefulsets", "db")
	case 2:
		return touched("statefulsets", "db", "delete all quotas", removeQuotas)
	case 3:
		return touched("statefulsets", "db", "create the service account robot", addRobot)
	default:
		return patched("statefulsets", "db", `{"metadata":{"annotations":{"note":"%d"}}}`, r.IntN(100))
	}
}

// atEase is the patch after which an object does not hang.
const atEase = `{"metadata":{"finalizers":null,"annotations":{"parity/acts":"run"}}}`

// relieved is the step after which no pod and no claim hangs.
func relieved(resource, name string) step {
	return touched(resource, name, "no pod and no claim hangs any more", func(ctx context.Context, s *subject) error {
		for _, kind := range []string{"pods", "persistentvolumeclaims"} {
			if err := s.patchAll(ctx, kind, atEase); err != nil {
				return err
			}
		}
		return nil
	})
}
