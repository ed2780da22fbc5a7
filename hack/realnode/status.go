package main

import (
	"context"
	"fmt"
)

func (n *node) status(ctx context.Context) error {
	s, err := n.running()
	if err != nil {
		return err
	}
	fmt.Printf("node %q: process %d, kube-apiserver at %s\n  export KUBECONFIG=%s\n  logs: %s\n",
		n.name, s.PID, s.Server, n.kubeconfig(), n.path("logs"))
	return n.kubectl(ctx, []string{"get", "pods", "-A", "-o",
		"custom-columns=NAMESPACE:.metadata.namespace,POD:.metadata.name,PHASE:.status.phase,RESTARTS:.status.containerStatuses[*].restartCount,IMAGE:.spec.containers[*].image"})
}
