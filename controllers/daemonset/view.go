package daemonset

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"orrery/controllers/internal/podctl"
)

// view is one DaemonSet as it stands at a time, sorted by node. It is made once per reconcile, and all decisions are
// taken from it.
type view struct {
	set     *appsv1.DaemonSet // from the cache: read-only
	now     time.Time
	present edition
	desired int    // how many nodes are to run a pod
	spots   []spot // in no order
}

// spot is a node that is to run a pod, or has one. One of which only pods are left is to run nothing.
type spot struct {
	node string
	gone bool // there is no such node any more
	verdict
	pods []*corev1.Pod // of the DaemonSet, on the node or pinned to it
}

// survey sorts the pods of a DaemonSet by node. Pods that have ended and been deleted are only waiting to be forgotten
// and do not count.
func survey(set *appsv1.DaemonSet, where *placement, nodes []*corev1.Node, pods []*corev1.Pod, present edition, now time.Time) *view {
	v := &view{set: set, now: now, present: present}
	byNode := groupByNode(pods)
	v.spots = make([]spot, 0, max(len(byNode), len(nodes)/8))
	for _, node := range nodes {
		verdict, on := where.judge(node), byNode[node.Name]
		if verdict.run {
			v.desired++
		} else if on == nil {
			continue
		}
		if on != nil {
			delete(byNode, node.Name)
		}
		v.spots = append(v.spots, spot{node: node.Name, verdict: verdict, pods: on})
	}
	for node, on := range byNode {
		v.spots = append(v.spots, spot{node: node, gone: true, pods: on})
	}
	return v
}

func groupByNode(pods []*corev1.Pod) map[string][]*corev1.Pod {
	byNode := make(map[string][]*corev1.Pod, len(pods))
	// Most nodes have one pod: its list is a piece of one array, with no room, so that a second pod makes it a copy.
	single := slices.Clone(pods)
	for i, pod := range pods {
		if pod.DeletionTimestamp != nil && podctl.Finished(pod) {
			continue
		}
		node := nodeOf(pod)
		if node == "" {
			continue
		}
		if on := byNode[node]; on == nil {
			byNode[node] = single[i : i+1 : i+1]
		} else {
			byNode[node] = append(on, pod)
		}
	}
	return byNode
}

func (v *view) available(pod *corev1.Pod) bool {
	return podctl.Available(pod, v.set.Spec.MinReadySeconds, v.now)
}

// byPrecedence puts first the pod that counts most on its node: bound ones before others, then the oldest.
func byPrecedence(a, b *corev1.Pod) int {
	if boundA, boundB := a.Spec.NodeName != "", b.Spec.NodeName != ""; boundA != boundB {
		if boundA {
			return -1
		}
		return 1
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// first returns the pod that counts most on the node, or nil.
func (s spot) first() *corev1.Pod {
	if len(s.pods) == 0 {
		return nil
	}
	return slices.MinFunc(s.pods, byPrecedence)
}
