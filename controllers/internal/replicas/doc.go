// Package replicas is the engine that keeps a number of equal pods running, for ReplicaSets and for
// ReplicationControllers.
//
// Owns: pods. Watches: its own kind and pods. Writes: creates, adopts, releases and deletes pods, and the status of its
// own kind, once per reconcile and last. The two kinds differ in Go types only; Kind tells the engine where each keeps
// what it needs, so that no object is converted or copied to be looked at.
//
// The rules it must never break: no pod is created or deleted on behalf of an object that is being deleted, none is
// taken from another controller, and no decision rests on a cache that lags behind the engine's own writes. Pods that
// disappear as fast as they are created are replaced at a limited rate.
package replicas
