// Package podgc removes pods that nothing else removes: finished pods above a threshold, pods of nodes that no longer
// exist, and deleted pods whose end no kubelet can confirm.
//
// Owns: nothing. Watches: Pods, Nodes. Writes: pod status (phase Failed, condition DisruptionTarget), deletes Pods
// with grace period 0. It sweeps every 20 seconds and finds its pods through indexes, so that the cost of a sweep depends
// on the number of pods to remove and not on the number of pods.
//
// The rule it must never break: a pod is removed because of its node only after the server has confirmed that the node
// does not exist or is out of service; and a pod that has not ended is marked as failed before it is deleted, so that its
// owner notices.
package podgc
