package disruption

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"orrery/controllers/internal/podctl"
	"orrery/controllers/internal/roster"
	"orrery/kit"
)

// settleTime is how long an owner may take to delete pods after it was scaled down. Until then budgets follow the deletions
// and not the new scale.
const settleTime = 5 * time.Second

// watches maps changes of other objects to the budgets to reconcile.
type watches struct {
	roster   *roster.Roster
	recorder record.EventRecorder
	later    func(budget kit.Key, in time.Duration)
}

// podChanged returns the budgets whose numbers may change with a pod, and keeps the roster up to date.
func (w *watches) podChanged(old, pod *corev1.Pod) []kit.Key {
	var is []kit.Key
	switch {
	case pod == nil:
		return w.roster.Leave(old)
	case old == nil:
		is = w.roster.Enter(pod)
	case old.UID != pod.UID, !maps.Equal(old.Labels, pod.Labels):
		was := w.roster.Matching(old.Namespace, old.Labels)
		is = w.roster.Enter(pod)
		w.overlap(pod, is)
		return append(is, was...)
	case countsAlike(old, pod):
		return nil
	default:
		is = w.roster.Matching(pod.Namespace, pod.Labels)
	}
	w.overlap(pod, is)
	return is
}

// countsAlike reports whether two versions of a pod with the same labels are the same to budgets.
func countsAlike(old, pod *corev1.Pod) bool {
	return (old.DeletionTimestamp == nil) == (pod.DeletionTimestamp == nil) && podctl.Ready(old) == podctl.Ready(pod) &&
		controllerUID(old) == controllerUID(pod)
}

func controllerUID(pod *corev1.Pod) types.UID {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		return ref.UID
	}
	return ""
}

// overlap warns about a pod with several budgets, which the eviction API refuses to evict.
func (w *watches) overlap(pod *corev1.Pod, budgets []kit.Key) {
	if len(budgets) < 2 {
		return
	}
	first := slices.MinFunc(budgets, func(a, b kit.Key) int { return strings.Compare(a.Name, b.Name) })
	w.recorder.Event(pod, corev1.EventTypeWarning, "MultiplePodDisruptionBudgets",
		fmt.Sprintf("Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", pod.Namespace, pod.Name, first.Name))
}

func (w *watches) deploymentResized(old, d *appsv1.Deployment) []kit.Key {
	if old == nil || d == nil {
		return nil
	}
	return w.resized(d.Namespace, d.Spec.Template.Labels, old.Spec.Replicas, d.Spec.Replicas)
}

// replicaSetResized ignores the ReplicaSets of Deployments: only the scale of the Deployment counts.
func (w *watches) replicaSetResized(old, set *appsv1.ReplicaSet) []kit.Key {
	if old == nil || set == nil {
		return nil
	}
	if ref := metav1.GetControllerOfNoCopy(set); ref != nil && ref.Kind == kindDeployment {
		return nil
	}
	return w.resized(set.Namespace, set.Spec.Template.Labels, old.Spec.Replicas, set.Spec.Replicas)
}

func (w *watches) statefulSetResized(old, set *appsv1.StatefulSet) []kit.Key {
	if old == nil || set == nil {
		return nil
	}
	return w.resized(set.Namespace, set.Spec.Template.Labels, old.Spec.Replicas, set.Spec.Replicas)
}

func (w *watches) replicationControllerResized(old, rc *corev1.ReplicationController) []kit.Key {
	if old == nil || rc == nil || rc.Spec.Template == nil {
		return nil
	}
	return w.resized(rc.Namespace, rc.Spec.Template.Labels, old.Spec.Replicas, rc.Spec.Replicas)
}

// resized returns the budgets of the pods with these labels if their owner is scaled up. If it is scaled down the budgets
// are requeued later: a lower scale allows more disruptions, which the owner is about to use up by deleting pods itself.
func (w *watches) resized(namespace string, labels map[string]string, was, is *int32) []kit.Key {
	before, now := number(was), number(is)
	if before == now {
		return nil
	}
	budgets := w.roster.Matching(namespace, labels)
	if now > before {
		return budgets
	}
	for _, b := range budgets {
		w.later(b, settleTime)
	}
	return nil
}
