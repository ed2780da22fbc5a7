package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"

	"orrery/kit"
	"orrery/kit/client"
	"orrery/options"
)

// clients makes the connections to the API server: one for the process itself, one for the shared informers, one for
// leader election and, where asked for, one identity per controller.
type clients struct {
	root       *rest.Config
	perAccount bool
	fence      *fence
	core       typedcorev1.CoreV1Interface
	fresh      discovery.DiscoveryInterface       // asks the server each time
	discovery  discovery.CachedDiscoveryInterface // what the mapper knows
	mapper     *restmapper.DeferredDiscoveryRESTMapper
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
	return rest.AddUserAgent(config, "orrery"), nil
}

func newClients(config *rest.Config, perAccount bool, f *fence) (*clients, error) {
	// Service accounts and their tokens are made for controllers, so that they end with the lease as well.
	fenced := rest.CopyConfig(config)
	fenced.Wrap(f.wrap)
	core, err := typedcorev1.NewForConfig(fenced)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", config.Host, err)
	}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("discovery client for %s: %w", config.Host, err)
	}
	cached := memory.NewMemCacheClient(d)
	return &clients{
		root: config, perAccount: perAccount, fence: f, core: core,
		fresh: d, discovery: cached, mapper: restmapper.NewDeferredDiscoveryRESTMapper(cached),
	}, nil
}

// forInformers returns the client of the shared cache.
func (c *clients) forInformers() (*client.Client, error) {
	return client.New(rest.AddUserAgent(rest.CopyConfig(c.root), "shared-informers"), client.Options{Scheme: scheme.Scheme, Mapper: c.mapper})
}

// forElection returns the configuration of the client that renews the lease: on a connection of its own, with a
// timeout that leaves room for a second try before the renew deadline.
func (c *clients) forElection(renewDeadline time.Duration) *rest.Config {
	config := rest.AddUserAgent(rest.CopyConfig(c.root), "leader-election")
	config.Timeout = renewDeadline / 2
	config.Dial = (&net.Dialer{Timeout: renewDeadline / 2, KeepAlive: 30 * time.Second}).DialContext
	config.QPS = -1
	return config
}

// connection is what one controller talks to the server with.
type connection struct {
	config *rest.Config
	client *client.Client
	warm   func(context.Context) error // fetches the token ahead of the first request; nil where none is needed
}

// forController returns the client of a controller under its own identity. Its writes stop when the lease is lost.
func (c *clients) forController(d kit.Descriptor) (*connection, error) {
	config := rest.CopyConfig(c.root)
	out := &connection{}
	if c.perAccount && d.ServiceAccount != "" {
		id := &identity{account: d.ServiceAccount, core: c.core}
		config = rest.AnonymousClientConfig(config)
		config.Wrap(id.wrap)
		out.warm = func(ctx context.Context) error {
			_, err := id.current(ctx)
			return err
		}
	}
	config.Wrap(c.fence.wrap)
	out.config = rest.AddUserAgent(config, d.Name)
	var err error
	out.client, err = client.New(out.config, client.Options{Scheme: scheme.Scheme, Mapper: c.mapper})
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", d.Name, err)
	}
	return out, nil
}

// newRecorder returns a recorder that publishes events as the component, from a goroutine of its own that ends with
// ctx. Similar events are merged and floods are cut, as everywhere in Kubernetes; a full buffer drops events and never
// blocks a loop.
func newRecorder(ctx context.Context, config *rest.Config, component string) (record.EventRecorder, error) {
	core, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("event client of %s: %w", component, err)
	}
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartStructuredLogging(3)
	b.StartRecordingToSink(newGatheringSink(ctx, &typedcorev1.EventSinkImpl{Interface: core.Events("")}))
	return newBoundedRecorder(b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})), nil
}
