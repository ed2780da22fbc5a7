// Package checker holds the invariants that a controller manager must maintain
// at all times, whatever faults occur, and detects violations.
//
// Its input is the changes of the cluster's objects, in the order in which the
// API server stored them, and the passing of time. It makes no calls and reads
// no clock, so that it can check any history.
//
// The rules:
//
//   - ReplicaSet: no more pods than asked for.
//   - Deployment: no more pods than replicas and surge, no fewer ready ones than
//     replicas less what may be unavailable; with Recreate no two revisions at once.
//   - StatefulSet: one pod per ordinal, no ordinal that nobody asked for, no fewer
//     ready pods than allowed; with OrderedReady no pod before those below it are ready.
//   - DaemonSet: one pod per node and revision, one per node, or two with a surge.
//   - Job: no more pods than parallelism and completions ask for, one per index;
//     counts never fall, never exceed what happened, and equal it at the end; no
//     tracking finalizer is left then.
//   - CronJob: no slot has two Jobs, none starts early, Forbid and Replace leave one
//     Job at a time, and the time of the last start never goes back.
//   - PodDisruptionBudget: it does not for long allow more than the pods do.
//   - Namespace: nothing is left in it when it is gone, and nothing else goes before
//     the pods that were in it.
//   - Owners: nothing is collected that has an owner; what an owner is deleted
//     without stays; an owner deleted in the foreground goes after what blocks it.
//   - EndpointSlice: no address is ready whose pod never was; in the end those of
//     every pod are there, once, and no others.
//   - Node: it does not count as lost while it renews its lease, nor is tainted while
//     it is ready; no pod goes before it has tolerated the taint for as long as it
//     says, or is removed for a node that is there.
//
// What was asked for is what was asked for at any time since the object was last
// seen settled, since a controller may be behind.
package checker
