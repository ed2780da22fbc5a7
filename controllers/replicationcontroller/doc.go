// Package replicationcontroller keeps the desired number of pods of each ReplicationController running.
//
// Owns: pods. Watches: ReplicationControllers, pods. Writes: creates, adopts, releases and deletes pods;
// ReplicationController status.
//
// The work is done by the engine in controllers/internal/replicas, which it shares with the controller of ReplicaSets; this
// package describes ReplicationControllers to the engine. Their status does not report terminating pods.
//
// The rule it must never break: it acts only on a cache that shows its own last writes, so that no pod is created or
// deleted twice for the same reason.
package replicationcontroller
