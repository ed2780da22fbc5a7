// Package podgc removes pods that nobody else will: too many finished ones, those of nodes that are gone, and those
// that were deleted but can never be confirmed by a kubelet.
//
// Owns: nothing. Watches: Pods, Nodes. Writes: pod status (phase Failed, condition DisruptionTarget), deletes Pods
// with grace period 0. It looks every 20 seconds and finds its pods through indexes, so that a sweep costs what there
// is to remove and not what there is.
//
// The rule it must never break: a pod is removed for its node only after the server itself says that the node is gone,
// or out of service; and a pod that has not ended is marked as failed before it is deleted, so that its owner sees it.
package podgc
