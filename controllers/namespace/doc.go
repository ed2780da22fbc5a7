// Package namespace empties namespaces that have been deleted, and finalizes them.
//
// Owns: the finalizer "kubernetes" of Namespaces, their phase Terminating and five conditions. Watches: Namespaces,
// Pods. Writes: deletes everything in a deleted namespace, updates its status, finalizes it.
//
// A deletion gets a grace of five seconds to reach all API servers, in which only the pods are deleted and, once they are
// gone, the events. Then pods that were created meanwhile are deleted and, after the last pod has gone, everything else,
// several kinds at a time. What cannot be discovered or deleted keeps the namespace and shows in its conditions, but it does
// not keep the other kinds.
//
// The rule it must never break: the finalizer is removed only after live reads of every kind that can be deleted, without
// a failure anywhere, have shown that nothing is left.
package namespace
