// Package daemonset runs a pod of each DaemonSet on every node that the DaemonSet is meant for.
//
// Owns: pods and ControllerRevisions. Watches: DaemonSets, pods, revisions, nodes. Writes: creates, adopts, releases and
// deletes pods and revisions; DaemonSet status, once per reconcile and last.
//
// A reconcile makes one view of the DaemonSet, sorted by node, and takes all decisions from it: manage brings nodes to
// their pods, roll replaces pods of earlier templates, status counts. Nodes are judged by a placement, made once per
// generation. A loop of its own follows nodes and calls for those DaemonSets only that judge a node otherwise than
// before its change.
//
// The rule it must never break: a node gets a pod only where the cache, which shows this controller's own writes, shows
// none that counts. More than one stays only as an update with a surge asks for it.
package daemonset
