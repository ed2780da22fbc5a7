package manager

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// LoadConfig reads the kubeconfig at a path. With an empty path it takes what $KUBECONFIG names or the one in the home
// folder and, where there is none, the configuration of the pod that this process runs in.
func LoadConfig(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	return config, nil
}

// SignalContext returns a context that ends with the first SIGTERM or SIGINT. The second one has its default effect and
// ends the process, even if it comes before anyone has seen that the context has ended.
func SignalContext(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		defer cancel()
		select {
		case <-signals:
		case <-ctx.Done():
		}
		signal.Stop(signals)
		select {
		case again := <-signals: // came while nobody had looked at the first
			if p, err := os.FindProcess(os.Getpid()); err == nil {
				_ = p.Signal(again)
			}
		default:
		}
	}()
	return ctx, cancel
}
