// Package podstatus makes the patches by which controllers change a pod's status, which otherwise belongs to the kubelet:
// to mark a pod as failed, or to add conditions such as DisruptionTarget before a deletion.
package podstatus
