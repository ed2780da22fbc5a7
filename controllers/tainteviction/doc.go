// Package tainteviction deletes the pods that do not tolerate a NoExecute taint of their node, at once or when the time
// that they tolerate it for has run out.
//
// Owns: nothing. Watches: Pods, Nodes. Writes: the condition DisruptionTarget of pods, and then their deletion.
//
// A pending deletion is one entry of a map and one of the queue's heap. Its time counts from when this process first
// saw the pod under a taint; it is called off when the taints go, the pod goes, or it comes to tolerate them for ever.
//
// The rule it must never break: a pod is deleted by its UID and only while its node, as last seen, has a taint that the
// pod does not tolerate any longer. A pod that has only just come to the node goes at once only if the server says so too.
package tainteviction
