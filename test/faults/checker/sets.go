package checker

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

type statefulSet struct {
	*appsv1.StatefulSet
	bounds envelope // ready pods, and ordinals beyond the first
}

func (c *Checker) onStatefulSet(o *appsv1.StatefulSet, gone bool) {
	if gone {
		delete(c.stateful, o.UID)
		return
	}
	s := c.stateful[o.UID]
	if s == nil {
		s = &statefulSet{}
		c.stateful[o.UID] = s
	}
	s.StatefulSet = o
	n, unavailable := *o.Spec.Replicas, int32(1)
	if r := o.Spec.UpdateStrategy.RollingUpdate; r != nil && r.MaxUnavailable != nil {
		unavailable = max(1, scaled(r.MaxUnavailable, n, true))
	}
	// The status also counts pods that are being deleted or no longer desired.
	settled := o.Status.ObservedGeneration >= o.Generation && o.Status.Replicas == n && o.Status.ReadyReplicas == n &&
		len(c.podsOf(o.UID, exists)) == int(n) && len(c.podsOf(o.UID, s.wantedAndReady)) == int(n)
	s.bounds.note(settled, n-unavailable, n)
	c.checkStatefulSet(s, nil, false)
}

// ordinalOf returns the number in the name of a pod of a StatefulSet, or -1.
func ordinalOf(s *appsv1.StatefulSet, p *corev1.Pod) int32 {
	text, ok := strings.CutPrefix(p.Name, s.Name+"-")
	n, err := strconv.ParseInt(text, 10, 32)
	if !ok || err != nil {
		return -1
	}
	return int32(n)
}

// wantedAndReady selects the ready pods with desired ordinals.
func (s *statefulSet) wantedAndReady(p *corev1.Pod) bool {
	n := ordinalOf(s.StatefulSet, p) - first(s.StatefulSet)
	return ready(p) && n >= 0 && n < *s.Spec.Replicas
}

func first(s *appsv1.StatefulSet) int32 {
	if s.Spec.Ordinals != nil {
		return s.Spec.Ordinals.Start
	}
	return 0
}

// checkStatefulSet checks all pods of a StatefulSet, of which one may be new.
func (c *Checker) checkStatefulSet(s *statefulSet, p *corev1.Pod, isNew bool) {
	if s.DeletionTimestamp != nil {
		return
	}
	pods := c.podsOf(s.UID, exists)
	seen := map[int32]bool{}
	for _, p := range pods {
		n := ordinalOf(s.StatefulSet, p)
		switch index := p.Labels[appsv1.PodIndexLabel]; {
		case n < 0 || index != "" && index != strconv.Itoa(int(n)):
			c.violated("identity", s.StatefulSet, pods, "pod %s has ordinal label %q", p.Name, index)
		case seen[n]:
			c.violated("ordinal", s.StatefulSet, pods, "two pods have ordinal %d", n)
		case active(p) && (n < first(s.StatefulSet) || n >= first(s.StatefulSet)+s.bounds.high):
			c.violated("ordinal", s.StatefulSet, pods, "pod %s is not one of the %d asked for", p.Name, s.bounds.high)
		}
		seen[n] = true
	}
	up := c.podsOf(s.UID, ready)
	if s.bounds.known && len(up) < int(s.bounds.low) {
		c.violated("unavailability", s.StatefulSet, pods, "%d pods are ready, at least %d must be", len(up), s.bounds.low)
	}
	if !isNew || s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		return
	}
	below := map[int32]bool{}
	for _, q := range up {
		below[ordinalOf(s.StatefulSet, q)] = true
	}
	for n := first(s.StatefulSet); n < ordinalOf(s.StatefulSet, p); n++ {
		if !below[n] {
			c.violated("order", s.StatefulSet, pods, "pod %s was made before ordinal %d was ready", p.Name, n)
		}
	}
}

type daemonSet struct {
	*appsv1.DaemonSet
	bounds envelope // ready pods
	surges bool     // two pods of a node may run at once, or could a short while ago
}

func (c *Checker) onDaemonSet(o *appsv1.DaemonSet, gone bool) {
	if gone {
		delete(c.daemons, o.UID)
		return
	}
	d := c.daemons[o.UID]
	if d == nil {
		d = &daemonSet{}
		c.daemons[o.UID] = d
	}
	d.DaemonSet = o
	s := o.Status
	n, unavailable, surge := s.DesiredNumberScheduled, int32(1), int32(0)
	if r := o.Spec.UpdateStrategy.RollingUpdate; r != nil {
		unavailable, surge = scaled(r.MaxUnavailable, n, true), scaled(r.MaxSurge, n, true)
	}
	if o.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		unavailable = n
	}
	settled := s.ObservedGeneration >= o.Generation && n > 0 && s.CurrentNumberScheduled == n && s.UpdatedNumberScheduled == n && s.NumberAvailable == n
	if settled {
		d.surges = false
	}
	d.surges = d.surges || surge > 0
	d.bounds.note(settled, n-unavailable, n)
	c.checkDaemonSet(d)
}

// nodeOf returns the node that a pod of a DaemonSet is for.
func nodeOf(p *corev1.Pod) string {
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, f := range term.MatchFields {
				if f.Key == "metadata.name" && len(f.Values) == 1 {
					return f.Values[0]
				}
			}
		}
	}
	return p.Spec.NodeName
}

func (c *Checker) checkDaemonSet(d *daemonSet) {
	if d.DeletionTimestamp != nil {
		return
	}
	byNode, byRevision := map[string][]*corev1.Pod{}, map[string][]*corev1.Pod{}
	for _, p := range c.podsOf(d.UID, active) {
		node, revision := nodeOf(p), p.Labels[appsv1.ControllerRevisionHashLabelKey]
		byNode[node] = append(byNode[node], p)
		byRevision[node+"/"+revision] = append(byRevision[node+"/"+revision], p)
	}
	limit := 1
	if d.surges {
		limit = 2
	}
	for node, pods := range byNode {
		if len(pods) > limit {
			c.violated("node", d.DaemonSet, pods, "%d pods on node %s, at most %d may be", len(pods), node, limit)
		}
	}
	for where, pods := range byRevision {
		if len(pods) > 1 {
			c.violated("revision", d.DaemonSet, pods, "%d pods of one revision on a node: %s", len(pods), where)
		}
	}
	if up := c.podsOf(d.UID, ready); d.bounds.known && len(up) < int(d.bounds.low) {
		c.violated("unavailability", d.DaemonSet, c.podsOf(d.UID, exists), "%d pods are ready, at least %d must be", len(up), d.bounds.low)
	}
}
