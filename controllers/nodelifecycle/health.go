package nodelifecycle

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/kit/client"
)

// health is what is remembered of a node between two checks. Times are by this process's clock: those of nodes differ.
type health struct {
	node         types.UID   // of the node, whose name may be that of an earlier one
	seen         time.Time   // when the last sign of life was noticed
	heartbeat    metav1.Time // of the ready condition at that time
	hasCondition bool        // whether there was a ready condition
	renewed      time.Time   // renew time of the lease, as the node wrote it
	lease        string      // resourceVersion of the lease as last cached; empty if there never was one
}

// observe notes the signs of life of a node: a status with another heartbeat, or a renewed lease. The result is the
// new memory; h is nil for a node seen for the first time.
func (h *health) observe(node *corev1.Node, lease *coordinationv1.Lease, now time.Time) *health {
	if h != nil && h.node != node.UID {
		h = nil
	}
	ready := condition(node, corev1.NodeReady)
	next := health{node: node.UID, seen: now}
	switch {
	case ready == nil && h == nil:
		next.seen = node.CreationTimestamp.Time // it has never reported: the startup grace period begins at its creation
	case ready == nil && !h.hasCondition, h != nil && ready != nil && h.hasCondition && h.heartbeat.Equal(&ready.LastHeartbeatTime):
		next = *h
	case h != nil:
		next.renewed, next.lease = h.renewed, h.lease
	}
	if ready != nil {
		next.hasCondition, next.heartbeat = true, ready.LastHeartbeatTime
	}
	if lease == nil {
		return &next
	}
	// Another renew time is a sign of life even if it is an earlier one: the node's clock may have been set back. A new
	// version with the same time is none, but it has to be known for the comparison with the server's.
	if t := lease.Spec.RenewTime; t != nil && (next.lease == "" || !next.renewed.Equal(t.Time)) {
		next.seen, next.renewed = now, t.Time
	}
	next.lease = lease.ResourceVersion
	return &next
}

// silentFor reports whether a node has given no sign of life for its grace period.
func (h *health) silentFor(grace time.Duration, now time.Time) bool {
	return now.After(h.seen.Add(grace))
}

// heartbeatConditions are those that the kubelet keeps up to date, and that become Unknown when it is silent.
var heartbeatConditions = []corev1.NodeConditionType{
	corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
}

// unknownConditions returns the conditions that have to change because the node is silent, in the order that they are to
// have: as they stand, and those that the node lacks after them.
func unknownConditions(node *corev1.Node, now metav1.Time) []corev1.NodeCondition {
	var out []corev1.NodeCondition
	for _, c := range node.Status.Conditions {
		if c.Status != corev1.ConditionUnknown && slices.Contains(heartbeatConditions, c.Type) {
			c.Status, c.Reason, c.Message, c.LastTransitionTime = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status.", now
			out = append(out, c)
		}
	}
	for _, t := range heartbeatConditions {
		if condition(node, t) == nil {
			out = append(out, corev1.NodeCondition{
				Type: t, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated", Message: "Kubelet never posted node status.",
				LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: now,
			})
		}
	}
	return out
}

// conditionsPatch returns the part of a patch that sets conditions.
func conditionsPatch(node *corev1.Node, changed []corev1.NodeCondition) map[string]any {
	typeOf := func(c corev1.NodeCondition) corev1.NodeConditionType { return c.Type }
	return map[string]any{
		"conditions":                  changed,
		"$setElementOrder/conditions": client.ElementOrder("type", typeOf, node.Status.Conditions, changed),
	}
}
