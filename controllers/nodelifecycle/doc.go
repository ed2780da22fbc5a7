// Package nodelifecycle finds out which nodes are alive, and publishes that in conditions and taints.
//
// Owns: the taints node.kubernetes.io/{not-ready,unreachable,memory-pressure,disk-pressure,pid-pressure,
// network-unavailable,unschedulable}, and conditions of nodes that stopped reporting. Watches: Nodes, Leases, Pods.
// Writes: node taints and labels, node and pod status.
//
// Four loops: one turns conditions into taints as they change; one checks all heartbeats every few seconds; one adds
// NoExecute taints, in each zone no faster than its state allows; one marks pods as not ready that are bound to a node that
// is not ready.
//
// The rule it must never break: a node counts as lost only after a live read has shown that its lease is not renewed. And
// if every node of every zone seems lost, the control plane is taken to be cut off, and no pod is evicted.
package nodelifecycle
