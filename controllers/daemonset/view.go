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

// view is the state of one DaemonSet and its pods, grouped by node, from which all decisions are taken.
type view struct {
	set     *appsv1.DaemonSet // from the cache: read-only
	now     time.Time
	current templateID
	desired int         // how many nodes should run a pod
	nodes   []nodeState // in no order
	strays  int         // active pods that are neither bound nor pinned to a node
}

// nodeState is a node that should run a pod, or has one.
type nodeState struct {
	node string
	gone bool // the node does not exist any more; then verdict is zero
	verdict
	pods []*corev1.Pod // of the DaemonSet, on the node or pinned to it
}

// newView makes a view of a DaemonSet. Pods that have ended and are being deleted do not count.
func newView(set *appsv1.DaemonSet, where *placement, nodes []*corev1.Node, pods []*corev1.Pod, current templateID, now time.Time) *view {
	v := &view{set: set, now: now, current: current}
	byNode, strays := groupByNode(pods)
	v.strays = strays
	v.nodes = make([]nodeState, 0, max(len(byNode), len(nodes)/8))
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
		v.nodes = append(v.nodes, nodeState{node: node.Name, verdict: verdict, pods: on})
	}
	for node, on := range byNode {
		v.nodes = append(v.nodes, nodeState{node: node, gone: true, pods: on})
	}
	return v
}

func groupByNode(pods []*corev1.Pod) (byNode map[string][]*corev1.Pod, strays int) {
	byNode = make(map[string][]*corev1.Pod, len(pods))
	// Most nodes have one pod, whose slice of length 1 comes from one shared array. Its capacity is 1 too, so that appending
	// a second pod makes a copy.
	single := slices.Clone(pods)
	for i, pod := range pods {
		if pod.DeletionTimestamp != nil && podctl.Finished(pod) {
			continue
		}
		node := nodeOf(pod)
		if node == "" {
			if podctl.Active(pod) {
				strays++
			}
			continue
		}
		if on := byNode[node]; on == nil {
			byNode[node] = single[i : i+1 : i+1]
		} else {
			byNode[node] = append(on, pod)
		}
	}
	return byNode, strays
}

func (v *view) available(pod *corev1.Pod) bool {
	return podctl.Available(pod, v.set.Spec.MinReadySeconds, v.now)
}

// byPrecedence orders the pods of a node by which of them to keep: bound ones before others, then the oldest.
func byPrecedence(a, b *corev1.Pod) int {
	if boundA, boundB := a.Spec.NodeName != "", b.Spec.NodeName != ""; boundA != boundB {
		if boundA {
			return -1
		}
		return 1
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// first returns the first pod of the node by precedence, or nil.
func (s nodeState) first() *corev1.Pod {
	if len(s.pods) == 0 {
		return nil
	}
	return slices.MinFunc(s.pods, byPrecedence)
}
