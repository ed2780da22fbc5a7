// Package podstatus makes the patches by which controllers, and not the kubelet, change a pod's status: marking it as
// failed, and adding conditions such as DisruptionTarget before a deletion.
package podstatus
