package checker

import (
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// NodeGrace is how long a node may fail to renew its lease before it counts as lost; it is a flag of the manager.
	NodeGrace = 20 * time.Second
	// OnlyEvicted is the label of pods that may be deleted only because their node is lost or does not exist.
	OnlyEvicted = "only-evicted"
	// blind is how long, by its own clock, a working manager may act on outdated information.
	blind = 10 * time.Second
	// kubelet is the label of nodes that have a kubelet.
	kubelet = "kwok.x-k8s.io/node"
)

// outage is a period during which a node had a taint that evicts pods.
type outage struct {
	taint corev1.Taint
	since time.Time // by the clock of who has set it
	until time.Time // when it was seen to be gone; zero if it is there
}

// node is what is known of the nodes with one name.
type node struct {
	*corev1.Node // nil if there is none
	outages      []outage
	renewals     []time.Time
	unready      time.Time // when it was last seen not to be ready
}

func (c *Checker) nodeNamed(name string) *node {
	if c.nodes[name] == nil {
		c.nodes[name] = &node{}
	}
	return c.nodes[name]
}

// onLease records the heartbeats of a node.
func (c *Checker) onLease(o *coordinationv1.Lease) {
	if o.Namespace != corev1.NamespaceNodeLease || o.Spec.RenewTime == nil {
		return
	}
	n, at := c.nodeNamed(o.Name), o.Spec.RenewTime.Time
	if len(n.renewals) == 0 || n.renewals[len(n.renewals)-1].Before(at) {
		n.renewals = append(n.renewals, at)
	}
	n.renewals = n.renewals[max(0, len(n.renewals)-16):]
}

func (c *Checker) onNode(e Event, o *corev1.Node) {
	n := c.nodeNamed(o.Name)
	was := n.Node
	if n.Node = o; e.Gone {
		n.Node = nil
		n.mend(nil, c.now)
		return
	}
	status, since := readiness(o)
	if status != corev1.ConditionTrue {
		n.unready = c.now
	}
	if was != nil && was.UID == o.UID && !e.Listed {
		before, _ := readiness(was)
		if before != corev1.ConditionTrue {
			n.unready = c.now // until now
		}
		if before == corev1.ConditionTrue && status == corev1.ConditionUnknown {
			c.lost++
			c.checkVerdict(n, since)
		}
	}
	n.mend(o.Spec.Taints, c.now)
	for _, t := range o.Spec.Taints {
		if drivesOut(t) && n.begin(t) && t.TimeAdded != nil && t.TimeAdded.Sub(n.unready) > blind && !e.Listed {
			c.violated("taint", o, nil, "it has %s since %s, and was always ready or since %s", t.Key, t.TimeAdded.Format(clock), n.unready.Format(clock))
		}
	}
}

// checkVerdict checks a node that counts as lost from now on.
func (c *Checker) checkVerdict(n *node, at time.Time) {
	for _, r := range n.renewals {
		// The times of conditions have a resolution of a second.
		if r.Before(at.Add(-blind)) && r.After(at.Add(time.Second-NodeGrace)) {
			c.violated("heartbeat", n.Node, nil, "it counts as lost since %s, and had renewed its lease at %s", at.Format(clock), r.Format(clock))
		}
	}
}

func readiness(o *corev1.Node) (corev1.ConditionStatus, time.Time) {
	for _, cond := range o.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			return cond.Status, cond.LastTransitionTime.Time
		}
	}
	return "", time.Time{}
}

// drivesOut selects the taints that evict pods from nodes that are lost or not ready.
func drivesOut(t corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoExecute && (t.Key == corev1.TaintNodeUnreachable || t.Key == corev1.TaintNodeNotReady)
}

// begin records a taint and reports whether it is new.
func (n *node) begin(t corev1.Taint) bool {
	for _, o := range n.outages {
		if o.until.IsZero() && o.taint.Key == t.Key {
			return false
		}
	}
	var since time.Time
	if t.TimeAdded != nil {
		since = t.TimeAdded.Time
	}
	n.outages = append(n.outages, outage{taint: t, since: since})
	return true
}

// mend records which taints have been removed.
func (n *node) mend(left []corev1.Taint, now time.Time) {
	for i := range n.outages {
		o := &n.outages[i]
		there := false
		for _, t := range left {
			there = there || t.Key == o.taint.Key && drivesOut(t) && (t.TimeAdded == nil || t.TimeAdded.Time.Equal(o.since))
		}
		if !there && o.until.IsZero() {
			o.until = now
		}
	}
}

// onEvicted checks a pod that may just have been evicted.
func (c *Checker) onEvicted(p, was *corev1.Pod, e Event) {
	reason, at := disruption(p)
	if was != nil {
		if before, _ := disruption(was); before == reason {
			reason = ""
		}
	}
	switch reason {
	case "DeletionByTaintManager":
		c.evicted++
	case "DeletionByPodGC":
		c.nodeless++
	}
	n := c.nodeNamed(p.Spec.NodeName)
	switch {
	case e.Listed || p.Spec.NodeName == "":
	case reason == "DeletionByTaintManager" && !n.tolerated(p, at):
		c.violated("toleration", p, nil, "it is evicted at %s, and its node was not tainted, or not for so long", at.Format(clock))
	case reason == "DeletionByPodGC" && n.Node != nil && n.CreationTimestamp.Time.Before(at.Add(-2*time.Second)):
		c.violated("pod of no node", p, nil, "it is removed at %s, and its node is there", at.Format(clock))
	}
	if going(p) && (was == nil || !going(was)) && p.Labels[OnlyEvicted] != "" && !e.Listed {
		if now, _ := disruption(p); !strings.HasPrefix(now, "DeletionBy") {
			c.violated("toleration", p, nil, "it goes, and nothing says why")
		}
	}
}

// tolerated reports whether there was an outage that lasted as long as the pod tolerates it.
func (n *node) tolerated(p *corev1.Pod, at time.Time) bool {
	for _, o := range n.outages {
		d, ever := toleration(p, o.taint)
		due := o.since.Add(d)
		if !ever && !due.After(at.Add(time.Second)) && (o.until.IsZero() || due.Before(o.until.Add(blind))) {
			return true
		}
	}
	return false
}

// toleration returns how long a pod tolerates a taint, or that it does so for ever.
func toleration(p *corev1.Pod, taint corev1.Taint) (d time.Duration, ever bool) {
	for _, t := range p.Spec.Tolerations {
		if (t.Key != taint.Key && t.Key != "") || (t.Effect != taint.Effect && t.Effect != "") {
			continue
		}
		if t.TolerationSeconds == nil {
			return 0, true
		}
		d = time.Duration(*t.TolerationSeconds) * time.Second
	}
	return d, false
}

// disruption returns why and since when a pod is being disrupted.
func disruption(p *corev1.Pod) (string, time.Time) {
	for _, cond := range p.Status.Conditions {
		if cond.Type == corev1.DisruptionTarget && cond.Status == corev1.ConditionTrue {
			return cond.Reason, cond.LastTransitionTime.Time
		}
	}
	return "", time.Time{}
}

// stuck reports whether an object can never be removed: a pod whose node is lost, so that no kubelet confirms its end.
func (c *Checker) stuck(uid types.UID) bool {
	p := c.loose[uid]
	if p == nil {
		return false
	}
	n := c.nodes[p.Spec.NodeName]
	return n != nil && n.Node != nil && n.Labels[kubelet] == ""
}

// unsettledNodes names the nodes that are alive but not marked as ready, or the other way round, and pods that should no
// longer be on their node or should not be ready there.
func (c *Checker) unsettledNodes() (names []string) {
	for _, n := range c.nodes {
		if n.Node == nil {
			continue
		}
		status, _ := readiness(n.Node)
		tainted := map[corev1.TaintEffect]bool{}
		for _, t := range n.Spec.Taints {
			if t.Key == corev1.TaintNodeUnreachable || t.Key == corev1.TaintNodeNotReady {
				tainted[t.Effect] = true
			}
		}
		lost := n.Labels[kubelet] == ""
		if lost != (status != corev1.ConditionTrue) || lost != tainted[corev1.TaintEffectNoExecute] || lost != tainted[corev1.TaintEffectNoSchedule] {
			names = append(names, name(n.Node))
		}
	}
	for _, p := range c.loose {
		n := c.nodes[p.Spec.NodeName]
		switch {
		case p.Spec.NodeName == "" || n == nil || over(p):
		case n.Node == nil:
			names = append(names, name(p))
		case n.Labels[kubelet] == "" && p.DeletionTimestamp == nil:
			if ready(p) || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { _, ever := toleration(p, t); return drivesOut(t) && !ever }) {
				names = append(names, name(p))
			}
		}
	}
	return names
}
