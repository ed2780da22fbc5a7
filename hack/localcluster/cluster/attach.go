package cluster

import (
	"fmt"
	"io"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Attach returns a Cluster for one that runs already, started by whatever means, of which only a kubeconfig of its
// administrator is at hand. It has clients and kubectl, and no processes: what starts, stops or reads files of a component
// is not for it, and Stop leaves it alone.
func Attach(kubeconfig string, log io.Writer) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("attach to cluster: %w", err)
	}
	config.QPS, config.Burst = -1, 0
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("attach to cluster: %w", err)
	}
	c := &Cluster{options: Options{Log: log}, config: config, client: client, failures: make(chan error), launcher: newLauncher(), stopped: true}
	c.files.AdminKubeconfig = kubeconfig
	return c, nil
}
