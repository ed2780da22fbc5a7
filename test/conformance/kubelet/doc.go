// Package kubelet does for fake nodes what specs ask of kubelets beyond the life of pods: it runs commands in containers.
//
// No container exists. A command is interpreted by a shell whose files are kept in memory, each as long as its volume:
// with the pod, with the claim, or with the node. That is enough for specs that leave a file for the next pod, or move
// away the file that a readiness probe looks at. What follows from it for the pod, that it is ready or has ended, is
// written into the annotations by which kwok is steered.
package kubelet
