// Package cluster runs a Kubernetes control plane on this machine for as long
// as a test or a person needs it: etcd, kube-apiserver, kube-scheduler, kwok as
// every kubelet, and on request a controller manager.
//
//	c, err := cluster.Start(ctx, cluster.Options{ControllerManager: cluster.Upstream})
//	if err != nil { ... }
//	defer c.Stop()
//
// Everything listens on free ports of 127.0.0.1, so any number of clusters run
// side by side. All processes are children: they are stopped by Stop, and the
// kernel kills them when the caller dies without calling it. Nothing is shared
// between clusters but the binaries.
//
// Nodes are fake: the Node objects, their leases and the status of their pods
// are written by kwok, and no container ever runs. Annotations on a pod steer
// its fake life, and so do the commands of its containers; stages.yaml tells how.
//
// Without a controller manager nobody removes the not-ready taint that
// admission (TaintNodesByCondition) puts on every new node, so the scheduler
// places pods that tolerate it and no others. Options.Untaint removes it.
package cluster
