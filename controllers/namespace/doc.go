// Package namespace empties namespaces that have been deleted, and lets go of them.
//
// Owns: the finalizer "kubernetes" of Namespaces, their phase Terminating and five conditions. Watches: Namespaces,
// Pods. Writes: deletes everything in a deleted namespace, updates its status, finalizes it.
//
// A deletion gets five seconds to reach all API servers, in which nothing but its pods are told to stop. Then pods that were
// made meanwhile go, and only after the last pod everything else, all kinds side by side. What cannot be discovered or
// deleted keeps the namespace and shows in its conditions; it never keeps the other kinds.
//
// The rule it must never break: the finalizer goes only after the server itself, asked for every kind that can be
// deleted, and without a failure anywhere, has shown nothing left.
package namespace
