// Package replicationcontroller keeps as many pods running for each ReplicationController as it asks for.
//
// Owns: pods. Watches: ReplicationControllers, pods. Writes: creates, adopts, releases and deletes pods;
// ReplicationController status.
//
// All of its work is that of the engine in controllers/internal/replicas, which it shares with the controller of
// ReplicaSets; this package says where a ReplicationController keeps what the engine reads. Its status does not tell of
// pods that are being deleted.
//
// The rule it must never break: it acts only on a cache that shows its own last writes, so that no pod is created or
// deleted twice for the same reason.
package replicationcontroller
