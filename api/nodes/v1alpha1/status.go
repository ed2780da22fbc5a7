package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodePoolStatus is what was observed of a pool. Its counts are always there, 0 too.
type NodePoolStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration"`
	// Selector is the node selector in use, in its text form.
	// +optional
	Selector string `json:"selector,omitempty"`
	// NodeCount is the number of nodes in the pool.
	// +optional
	NodeCount int32 `json:"nodeCount"`
	// ReadyNodeCount is the number of those that are ready.
	// +optional
	ReadyNodeCount int32 `json:"readyNodeCount"`
	// UpdatedNodeCount is the number of those that carry what the pool asks.
	// +optional
	UpdatedNodeCount int32 `json:"updatedNodeCount"`
	// ConflictedNodeCount is the number of those on which keys of the pool are left to others.
	// +optional
	ConflictedNodeCount int32 `json:"conflictedNodeCount"`
	// FailedNodeCount is the number of those that cannot be written.
	// +optional
	FailedNodeCount int32 `json:"failedNodeCount"`
	// Capacity is the sum over the nodes of the pool.
	// +optional
	Capacity ResourceList `json:"capacity,omitempty"`
	// Allocatable is the sum over the nodes of the pool.
	// +optional
	Allocatable ResourceList `json:"allocatable,omitempty"`
	// RuntimeClassName is the name of the RuntimeClass that the pool owns.
	// +optional
	RuntimeClassName string `json:"runtimeClassName,omitempty"`
	// ProblemNodes are nodes that are not as the pool asks, and why: the first 20 by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	ProblemNodes []ProblemNode `json:"problemNodes,omitempty"`
	// Plan is what a pool in mode Audit would change: the first 20 nodes by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	Plan []PlannedNode `json:"plan,omitempty"`
	// Conditions are Ready, NodesUpdated, Conflicted, RuntimeClassReady and Degraded.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ProblemNode is a node that is not as its pool asks.
type ProblemNode struct {
	// Name of the node.
	Name string `json:"name"`
	// Reason in one word: Conflict, Flapping, WriteFailed or MalformedRecord.
	Reason string `json:"reason"`
	// Message says which keys, and what can be done.
	// +optional
	Message string `json:"message,omitempty"`
}

// PlannedNode is a node that a pool in mode Audit would change.
type PlannedNode struct {
	// Name of the node.
	Name string `json:"name"`
	// Changes that would be made, one line each: at most 32.
	// +listType=atomic
	Changes []string `json:"changes"`
}
