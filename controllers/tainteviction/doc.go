// Package tainteviction deletes pods that do not tolerate a NoExecute taint of their node, at once or when their
// tolerationSeconds have passed.
//
// Owns: nothing. Watches: Pods, Nodes. Writes: the condition DisruptionTarget of pods; deletes pods.
//
// A pending deletion is one entry of a map and one of the queue's heap. Its time counts from when this process first
// saw the pod on the tainted node. It is cancelled when the taints are removed, the pod is deleted, or the pod comes to
// tolerate them for ever.
//
// The rule it must never break: a pod is deleted by UID, and only while its node, as last seen, has a taint that the pod
// does not tolerate, or no longer. A pod that has just been bound is evicted at once only if the server confirms the taint.
package tainteviction
