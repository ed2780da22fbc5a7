// Command realnode runs a control-plane node on this machine, made with kubeadm: a real kubelet and containerd start etcd,
// kube-apiserver, kube-scheduler and kube-controller-manager as static pods, and pods run real containers.
//
//	realnode up                          until "down"; needs root, and Debian's containerd, runc and CNI plugins
//	realnode kubectl get pods -A
//	realnode switch orrery               as the documentation says: another image in the manager's manifest
//	realnode switch upstream             and back
//	realnode exec -- crictl ps           any command inside the node
//	realnode down
//
// The node is a machine of its own to all that runs in it: mount, process, network, host name, IPC and cgroup namespaces.
// Its root is an overlay over this machine's, so that everything is where kubeadm and its documentation expect it and
// nothing that is written reaches the machine. Its network has no way out but one forwarded port on 127.0.0.1, that of
// kube-apiserver. When its first process ends, however it does, the kernel ends the others and takes mounts, addresses and
// packet filters with them; what is left is a folder and empty cgroups, which down removes.
package main
