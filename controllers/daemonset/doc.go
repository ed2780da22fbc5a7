// Package daemonset runs a pod of each DaemonSet on every eligible node.
//
// Owns: pods and ControllerRevisions. Watches: DaemonSets, pods, revisions, nodes. Writes: creates, adopts, releases and
// deletes pods and revisions; DaemonSet status, once per reconcile and last.
//
// A reconcile makes one view of the DaemonSet, grouped by node, and takes all decisions from it: manage gives each node
// the pods that it should have, roll replaces pods of earlier templates, status counts. A placement, computed once per
// generation, decides which nodes are eligible. A loop of its own watches nodes: a change of a node requeues only the
// DaemonSets whose decision about that node changes with it.
//
// The rule it must never break: a pod is created for a node only if the cache, which shows this controller's own writes,
// shows no pod of the DaemonSet there. A node keeps more than one pod only during an update with a surge.
package daemonset
