package daemonset

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"orrery/controllers/internal/podctl"
)

// plan is what is to be done for a DaemonSet now.
type plan struct {
	create []string      // nodes that get a pod
	remove []removal     // pods to delete
	after  time.Duration // when there is more to do if nothing changes; 0 for never
}

// removal is a pod to delete.
type removal struct {
	pod  *corev1.Pod
	node string
	// ended is the phase of a pod that has ended by itself, which is reported in an event; otherwise empty.
	ended corev1.PodPhase
}

// wait records that there is more to do in d, if d is not 0.
func (p *plan) wait(d time.Duration) {
	if d > 0 && (p.after == 0 || d < p.after) {
		p.after = d
	}
}

func (p *plan) drop(s nodeState, pods ...*corev1.Pod) {
	for _, pod := range pods {
		p.remove = append(p.remove, removal{pod: pod, node: s.node})
	}
}

// sort sorts by node, so that the plan does not depend on the order of the cache.
func (p *plan) sort() {
	slices.Sort(p.create)
	slices.SortStableFunc(p.remove, func(a, b removal) int { return strings.Compare(a.node, b.node) })
}

// manage plans for each node to have the pods that it should have, whatever their template: one if a pod should run there,
// none if none may stay, and none that has ended. blocked returns how long the failed pods of a node must not be deleted
// yet.
func manage(v *view, blocked func(node string) time.Duration) plan {
	var p plan
	surging := allowsSurge(v.set)
	for _, s := range v.nodes {
		switch {
		case s.run && len(s.pods) == 0:
			p.create = append(p.create, s.node)
		case s.stay:
			running, held := p.clear(s, blocked)
			switch {
			case surging && len(running) == 0 && s.run && !held:
				p.create = append(p.create, s.node)
			case len(running) <= 1:
			case surging:
				p.pair(v, s, running)
			default:
				slices.SortFunc(running, byPrecedence)
				p.drop(s, running[1:]...)
			}
		case s.gone:
			// The pod garbage collector deletes pods that were bound to a missing node, but not those that were only pinned to it.
			p.dropIf(s, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" })
		default:
			p.dropIf(s, func(*corev1.Pod) bool { return true })
		}
	}
	p.sort()
	return p
}

// dropIf plans to delete those pods of a node that want selects, unless they are being deleted already.
func (p *plan) dropIf(s nodeState, want func(*corev1.Pod) bool) {
	for _, pod := range s.pods {
		if pod.DeletionTimestamp == nil && want(pod) {
			p.drop(s, pod)
		}
	}
}

// clear plans to delete the pods of a node that have ended, and returns those that have not. held reports that a failed pod
// must stay for now, which also delays its replacement.
func (p *plan) clear(s nodeState, blocked func(node string) time.Duration) (running []*corev1.Pod, held bool) {
	for i, pod := range s.pods {
		switch phase := pod.Status.Phase; {
		case pod.DeletionTimestamp != nil:
		case phase == corev1.PodFailed:
			if d := blocked(s.node); d > 0 {
				p.wait(d)
				held = true
				continue
			}
			p.remove = append(p.remove, removal{pod, s.node, phase})
		case phase == corev1.PodSucceeded:
			p.remove = append(p.remove, removal{pod, s.node, phase})
		case len(s.pods) == 1:
			return s.pods[i : i+1 : i+1], false
		default:
			running = append(running, pod)
		}
	}
	return running, held
}

// pair plans for a node that may have an old and a new pod at the same time: the old one stays as long as it is ready and
// the new one is not available. Of several old or several new pods only the first by precedence stays.
func (p *plan) pair(v *view, s nodeState, running []*corev1.Pod) {
	slices.SortFunc(running, byPrecedence)
	var fresh, old *corev1.Pod
	for _, pod := range running {
		switch isNew := v.current.matchesHash(pod); {
		case isNew && fresh == nil:
			fresh = pod
		case !isNew && old == nil:
			old = pod
		default:
			p.drop(s, pod)
		}
	}
	if fresh != nil && old != nil && (!podctl.Ready(old) || v.available(fresh)) {
		p.drop(s, old)
	}
}

// allowsSurge reports whether a node may have two pods during an update.
func allowsSurge(set *appsv1.DaemonSet) bool {
	n, err := surgeOf(set, 1)
	return err == nil && n > 0
}

// surgeOf returns how many of the desired nodes may have a second pod.
func surgeOf(set *appsv1.DaemonSet, desired int) (int, error) {
	r := set.Spec.UpdateStrategy.RollingUpdate
	if set.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || r == nil || r.MaxSurge == nil {
		return 0, nil
	}
	return intstr.GetScaledValueFromIntOrPercent(r.MaxSurge, desired, true)
}
