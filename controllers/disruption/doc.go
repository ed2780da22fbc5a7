// Package disruption says in the status of each PodDisruptionBudget how many of its pods may be evicted now.
//
// Owns: nothing. Watches: budgets, pods, and the kinds that own pods: ReplicaSets, Deployments, StatefulSets and
// ReplicationControllers; the scale of any other owner is read from its scale subresource, by a loop of its own, so that
// an owner that answers slowly or not at all holds up nobody else's budget. Writes: the status of budgets, and the
// DisruptionTarget condition of pods that were to be evicted and still run after two minutes.
//
// The eviction API of the server lowers status.disruptionsAllowed itself and notes the pod in status.disruptedPods. A
// pod noted there counts as gone until the cache shows its end, or for two minutes.
//
// The rule it must never break: disruptionsAllowed is not raised on what may be outdated. Every status is bound to the
// version of the budget that it was made from, so that an eviction in between makes it conflict, and a scale that was
// read some time ago may lower the number but not raise it.
package disruption
