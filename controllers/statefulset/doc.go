// Package statefulset keeps pods with lasting identities: one per ordinal, each with a name, claims and a place in the
// order of its own.
//
// Owns: pods, ControllerRevisions; through owner references also the claims that the retention policy gives away.
// Watches: StatefulSets, pods, and claims for their end; revisions and namespaces are only looked up. Writes: creates,
// adopts, releases, repairs and deletes pods; creates claims and sets their owners; creates, adopts, renumbers and deletes
// revisions; StatefulSet status.
//
// A reconcile observes a set (observe.go), decides all that is to be done at once (plan.go, rollout.go, retention.go:
// pure functions) and does it in order (apply.go). Ordered sets wait at the first pod that is not yet what it should
// be; parallel sets pass it by.
//
// The rule it must never break: there is at most one pod per ordinal at any time. A pod is created only when the cache,
// which shows the controller's own writes, has none of that name, and a deleted pod is waited for until it is gone.
package statefulset
