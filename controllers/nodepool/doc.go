// Package nodepool keeps labels, annotations, taints and RuntimeClasses as NodePools ask for them.
//
// Owns: single keys of Nodes, as the record on each Node says, and one RuntimeClass per pool. Watches: NodePools, Nodes,
// RuntimeClasses. Writes: patches Nodes; NodePool status and finalizer; creates, updates and deletes RuntimeClasses.
//
// One loop, by Node, is the only writer of Nodes: what a node has to become is merged from all pools at once (package
// merge), and what it was is remembered on the node itself (package record), in the same patch. A second loop, by
// NodePool, counts, reports, hands out turns and cleans up. A third waits for the NodePool kind to come and go.
//
// The rule it must never break: nothing is taken from a node that a pool did not put there, and what a pool put there is
// taken only when it is certain that no pool asks for it any more. Every patch is bound to the version it was made from.
package nodepool
