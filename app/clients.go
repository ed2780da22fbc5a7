package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/version"

	"orrery/kit"
	"orrery/kit/client"
	"orrery/kit/leader"
	"orrery/kit/manager"
	"orrery/options"
)

// clients makes the connections of controllers to the API server: under the process's identity or, where asked for, one
// identity per controller.
type clients struct {
	root       *rest.Config
	perAccount bool
	manager    *manager.Manager
	mapper     *client.Mapper
	core       typedcorev1.CoreV1Interface
	traffic    *client.Traffic
	guard      func(http.RoundTripper) http.RoundTripper // wraps the transports of a dry run; nil otherwise
}

// loadConfig reads the kubeconfig that the flags name, or the configuration of the pod that this process runs in.
func loadConfig(s *options.CMServer) (*rest.Config, error) {
	if path := s.Kubeconfig; path != "" {
		if _, err := os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags(s.Master, s.Kubeconfig)
	switch {
	case errors.Is(err, rest.ErrNotInCluster):
		return nil, errors.New("--kubeconfig: not given, and this process does not run in a pod of a cluster; give the path of a kubeconfig file")
	case err != nil:
		return nil, fmt.Errorf("--kubeconfig %s: %w", s.Kubeconfig, err)
	}
	config.DisableCompression = true
	config.ContentType = s.ContentType
	config.AcceptContentTypes = s.AcceptContentTypes
	config.WarningHandler = rest.NoWarnings{} // the server's advice is for authors of manifests
	config.QPS, config.Burst = s.QPS, int(s.Burst)
	if s.QPS <= 0 {
		config.QPS = -1 // not limited here: the server's priority and fairness decides
	}
	config.UserAgent = userAgent(version.Get())
	return config, nil
}

func newClients(config *rest.Config, perAccount bool, m *manager.Manager, mapper *client.Mapper, traffic *client.Traffic) (*clients, error) {
	// Service accounts and tokens are created on behalf of controllers, so these writes need the lease as well.
	fenced := rest.CopyConfig(config)
	fenced.Wrap(m.Fence().Wrap)
	core, err := typedcorev1.NewForConfig(fenced)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", config.Host, err)
	}
	return &clients{root: config, perAccount: perAccount, manager: m, mapper: mapper, core: core, traffic: traffic}, nil
}

// connection is one controller's access to the API server.
type connection struct {
	config *rest.Config
	client *client.Client
	warm   func(context.Context) error // fetches the token ahead of the first request; nil where none is needed
}

// forController returns the client of a controller under its own identity. Its writes stop when the fence closes.
func (c *clients) forController(d kit.Descriptor, fence *leader.Fence) (*connection, error) {
	config := rest.CopyConfig(c.root)
	out := &connection{}
	if c.perAccount && d.ServiceAccount != "" {
		id := &identity{account: d.ServiceAccount, core: c.core}
		config = rest.AnonymousClientConfig(config) // this drops the wrappers of the transport, too
		config.Wrap(c.traffic.Wrap)
		if c.guard != nil {
			config.Wrap(c.guard)
		}
		config.Wrap(id.wrap)
		out.warm = func(ctx context.Context) error {
			_, err := id.current(ctx)
			return err
		}
	}
	config.Wrap(fence.Wrap)
	out.config = client.AddAgent(config, d.Name)
	var err error
	out.client, err = client.New(out.config, client.Options{Scheme: scheme.Scheme, Mapper: c.mapper})
	if err == nil && c.guard != nil {
		out.client = out.client.DryRun()
	}
	return out, err
}
