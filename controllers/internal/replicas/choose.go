package replicas

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/internal/index"
	"orrery/controllers/internal/podctl"
)

// firstToGo returns the n pods to delete. It sorts active in place.
func (r *reconciler[T, P]) firstToGo(set P, active []*corev1.Pod, n int, now time.Time) []*corev1.Pod {
	if n < len(active) {
		perNode := countByNode(r.related(set, active))
		podctl.Ranking{
			Cost: r.kind.DeletionCost, Now: now,
			OnNode: func(node string) int { return perNode[node] },
		}.Sort(active)
		if r.kind.AgeRatio != nil {
			ageRatios(active, n, now, r.kind.AgeRatio)
		}
	}
	return active[:n]
}

// related returns the pods that count when pods on fuller nodes are deleted first: those of all objects of the kind with
// the same controller, such as the old and new ReplicaSets of a Deployment, or only the object's own if it has none.
func (r *reconciler[T, P]) related(set P, own []*corev1.Pod) [][]*corev1.Pod {
	ref := metav1.GetControllerOfNoCopy(set)
	if ref == nil || r.kind.Siblings == nil {
		return [][]*corev1.Pod{own}
	}
	var out [][]*corev1.Pod
	for _, sibling := range index.OwnedIn(r.sets, *r.kind.Siblings, ref.UID, set.GetNamespace()) {
		out = append(out, index.Owned(r.pods, r.byOwner, sibling))
	}
	return out
}

// countByNode returns how many active pods each node has.
func countByNode(groups [][]*corev1.Pod) map[string]int {
	perNode := map[string]int{}
	for _, pods := range groups {
		for _, pod := range pods {
			if podctl.Active(pod) {
				perNode[pod.Spec.NodeName]++
			}
		}
	}
	return perNode
}

// ageRatios reports, for each ready one of the first n pods, its age divided by that of the youngest ready pod, in whole
// numbers as in upstream's metric.
func ageRatios(pods []*corev1.Pod, n int, now time.Time, tell func(float64)) {
	var youngest time.Time
	for _, pod := range pods {
		if podctl.Ready(pod) && pod.CreationTimestamp.After(youngest) {
			youngest = pod.CreationTimestamp.Time
		}
	}
	unit := now.Sub(youngest).Milliseconds()
	if unit == 0 {
		return // there is no ratio to an age of 0
	}
	for _, pod := range pods[:n] {
		if podctl.Ready(pod) {
			tell(float64(now.Sub(pod.CreationTimestamp.Time).Milliseconds() / unit))
		}
	}
}
