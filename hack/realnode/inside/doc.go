// Package inside is what runs in the node: three programs in a row, each in the place that the one before it made.
//
// The first (isolate) is alone in new namespaces. It makes the root file system, the cgroup namespace and the host name.
// The second (supervise) takes its place as process 1, buries orphans, and ends when its only child does. That child (boot)
// starts containerd, imports the images, runs the phases of kubeadm, keeps the kubelet and kube-proxy running, and
// forwards connections from this machine to kube-apiserver.
package inside
