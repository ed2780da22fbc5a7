// Package replicaset keeps the desired number of pods of each ReplicaSet running.
//
// Owns: pods. Watches: ReplicaSets, pods. Writes: creates, adopts, releases and deletes pods; ReplicaSet status.
//
// The work is done by the engine in controllers/internal/replicas, which it shares with the controller of
// ReplicationControllers; this package describes ReplicaSets to the engine.
//
// The rule it must never break: it acts only on a cache that shows its own last writes, so that no pod is created or
// deleted twice for the same reason.
package replicaset
