// Package replicaset keeps as many pods running for each ReplicaSet as it asks for.
//
// Owns: pods. Watches: ReplicaSets, pods. Writes: creates, adopts, releases and deletes pods; ReplicaSet status.
//
// All of its work is that of the engine in controllers/internal/replicas, which it shares with the controller of
// ReplicationControllers; this package says where a ReplicaSet keeps what the engine reads.
//
// The rule it must never break: it acts only on a cache that shows its own last writes, so that no pod is created or
// deleted twice for the same reason.
package replicaset
