// Package nodelifecycle finds out which nodes live and tells everyone through conditions and taints.
//
// Owns: the taints node.kubernetes.io/{not-ready,unreachable,memory-pressure,disk-pressure,pid-pressure,
// network-unavailable,unschedulable}, and conditions of nodes that stopped reporting. Watches: Nodes, Leases, Pods.
// Writes: node taints and labels, node and pod status.
//
// Four loops: one turns conditions into taints as they change; one looks at all heartbeats every few seconds; one
// adds NoExecute taints zone by zone, no faster than the zone's state allows; one marks pods not ready that are placed
// on a node that is not.
//
// The rule it must never break: a node is given up only after the server itself has shown that its lease is not
// renewed; and when every node of every zone seems lost, it is the control plane that is cut off, and nobody is evicted.
package nodelifecycle
