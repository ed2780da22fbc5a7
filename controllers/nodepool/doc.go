// Package nodepool sets the labels, annotations and taints of Nodes, and RuntimeClasses, to what NodePools specify.
//
// Owns: single keys of Nodes, according to the record on each Node, and one RuntimeClass per pool. Watches: NodePools, Nodes,
// RuntimeClasses. Writes: patches Nodes; NodePool status and finalizer; creates, updates and deletes RuntimeClasses.
//
// One loop, keyed by Node, is the only writer of Nodes. The desired state of a node is merged from all pools at once
// (package merge), and its previous values are recorded on the node itself (package record), in the same patch. A second
// loop, keyed by NodePool, counts nodes, writes the status, schedules rollouts and cleans up. A third follows the NodePool
// kind, which may be installed and removed at any time.
//
// The rule it must never break: a key is removed from a node only if a pool has set it, and only when it is certain that no
// pool wants it any more. Every patch has the resourceVersion that it was computed from as a precondition.
package nodepool
