// Package disruption keeps the status of each PodDisruptionBudget up to date: how many of its pods may be evicted now.
//
// Owns: nothing. Watches: budgets, pods, and the built-in owners of pods: ReplicaSets, Deployments, StatefulSets and
// ReplicationControllers. The scale of any other owner is read from its scale subresource, in a loop of its own, so that
// a slow or failing API delays no other budget. Writes: the status of budgets, and the DisruptionTarget condition of pods
// that should have been evicted but still run after two minutes.
//
// The eviction API of the server decrements status.disruptionsAllowed itself and enters the pod in status.disruptedPods.
// Such a pod counts as gone until the cache shows that it is being deleted, for two minutes at most.
//
// The rule it must never break: disruptionsAllowed is not raised on data that may be outdated. Every status update is
// bound to the version of the budget that it was computed from, so that it conflicts with an eviction in between. A scale
// that was read some time ago may lower the number but not raise it.
package disruption
