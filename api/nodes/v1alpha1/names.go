package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// RecordAnnotation on a Node says which of its keys pools own, and what was there before.
	RecordAnnotation = GroupName + "/pools"
	// CleanupFinalizer keeps a NodePool until no Node carries a record of it.
	CleanupFinalizer = GroupName + "/cleanup"
	// NodeRolePrefix begins the label of a node's role. A pool's name after it is the default node selector.
	NodeRolePrefix = "node-role.kubernetes.io/"
	// RuntimeClassPrefix and the pool's name are the default name of its RuntimeClass.
	RuntimeClassPrefix = "node-pool-"
)

// Types of the conditions in the status of a NodePool.
const (
	// ConditionReady is true when the nodes and the RuntimeClass are as the pool asks.
	ConditionReady = "Ready"
	// ConditionNodesUpdated is true when every node of the pool carries what the pool asks.
	ConditionNodesUpdated = "NodesUpdated"
	// ConditionConflicted is true when keys of the pool are left to others on some node.
	ConditionConflicted = "Conflicted"
	// ConditionRuntimeClassReady is true when the RuntimeClass is as the pool asks; it is absent without one.
	ConditionRuntimeClassReady = "RuntimeClassReady"
	// ConditionDegraded is true when something needs a human: a write that is refused, a record that cannot be read.
	ConditionDegraded = "Degraded"
)

// Selector returns the node selector of the pool, which is its role label where none is set.
func (p *NodePool) Selector() *metav1.LabelSelector {
	if p.Spec.NodeSelector != nil {
		return p.Spec.NodeSelector
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{NodeRolePrefix + p.Name: ""}}
}

// RuntimeClassName returns the name of the pool's RuntimeClass, empty if it has none.
func (p *NodePool) RuntimeClassName() string {
	switch rc := p.Spec.RuntimeClass; {
	case rc == nil:
		return ""
	case rc.Name != "":
		return rc.Name
	}
	return RuntimeClassPrefix + p.Name
}
