package app

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"orrery/controllers"
	"orrery/kit"
	"orrery/kit/client"
	"orrery/kit/manager"
	"orrery/kit/status"
	"orrery/kit/webhook"
	"orrery/options"
)

// Run is the daemon. It returns nil after ctx has ended and everything has stopped in order, and an error if it could
// not start, or had to end because the lease was lost.
func Run(ctx context.Context, s *options.CMServer) error {
	// First the manager, with the lease, the cache and the connection to the API server, and the clients of controllers.
	config, err := loadConfig(s)
	if err != nil {
		return err
	}
	var traffic client.Traffic
	config.Wrap(traffic.Wrap)
	dry := newDryRun(ctx, s, config)
	mapper, err := client.NewMapper(config, nil)
	if err != nil {
		return err
	}
	o := managerOptions(ctx, s, mapper)
	if o.Webhook, err = webhookOptions(s); err != nil {
		return err
	}
	m, err := manager.New(config, o)
	if err != nil {
		return err
	}
	defer m.Close()
	if hooks := m.Webhooks(); hooks != nil {
		if err := controllers.AddWebhooks(hooks, m.Live()); err != nil {
			return err
		}
	}
	c, err := newClients(config, s.UseServiceAccountCredentials, m, mapper, &traffic)
	if err != nil {
		return err
	}
	c.guard = dry.guard

	// Then HTTP, before anything that can take long.
	d := &daemon{options: s, clients: c, manager: m, dryRun: dry.writes}
	d.status = d.newStatusPage()
	if err := m.AddServer(manager.Func("status sampler", d.status.Run)); err != nil {
		return err
	}
	if err := d.addHTTP(ctx); err != nil {
		return err
	}

	// Finally wait for the API server, take the lease and, with it, start the controllers.
	if err := d.addControllers(); err != nil {
		return err
	}
	err = m.Start(ctx)
	if late, ok := errors.AsType[*manager.StragglersError](err); ok {
		return late.Cause // the stragglers are named in the log, and can no longer write
	}
	return err
}

// managerOptions translates the daemon's options into those of the manager.
func managerOptions(ctx context.Context, s *options.CMServer, mapper *client.Mapper) manager.Options {
	e := &s.LeaderElection
	return manager.Options{
		Name: component, Scheme: scheme.Scheme, Mapper: mapper, Gates: s.Gates.FeatureGate(), Log: klog.FromContext(ctx),
		// Controllers ask for caches while they are built, and each waits for its own only.
		Cache:       manager.Cache{Slim: controllers.Slimming(), Resync: -1, Name: informerName(), Await: true, StartedByOthers: true},
		Client:      manager.Client{DryRun: s.DryRun},
		SyncTimeout: -1,
		Election: manager.Election{
			Enabled: e.LeaderElect, Kind: e.ResourceLock, Namespace: e.ResourceNamespace, ID: e.ResourceName,
			LeaseDuration: e.LeaseDuration.Duration, RenewDeadline: e.RenewDeadline.Duration, RetryPeriod: e.RetryPeriod.Duration,
			Optional: s.DryRun, Coordinated: coordinated(s),
		},
		// 0 means not to wait, whereas to the manager it means its default.
		ShutdownTimeout: cmp.Or(s.ControllerShutdownTimeout, time.Nanosecond),
		Server:          manager.Server{Probe: "/api/v1/namespaces/kube-system", Role: "those of system:kube-controller-manager"},
	}
}

// webhookOptions says where the webhooks are served; nil if they are not.
func webhookOptions(s *options.CMServer) (*webhook.Options, error) {
	if s.Webhooks.CertDir == "" {
		return nil, nil
	}
	own, err := controllers.WebhookScheme()
	return &webhook.Options{CertDir: s.Webhooks.CertDir, Host: s.Webhooks.BindAddress, Port: s.Webhooks.Port, Scheme: own}, err
}

// informerName returns the name of the informers in metrics. A process can have only one; a second Run in the same process,
// as in tests, publishes no metrics of informers.
func informerName() *toolscache.InformerName {
	name, err := toolscache.NewInformerName(component)
	if err != nil {
		return nil
	}
	return name
}

// daemon is what one Run works with.
type daemon struct {
	options *options.CMServer
	clients *clients
	manager *manager.Manager
	status  *status.Page
	dryRun  *kit.DryRun // nil unless this is a dry run
	built   atomic.Bool // the controllers have been built, except those that migrate or wait for their kinds

	migration *manager.Lease // of the controllers that migrate; nil: none does
	migrated  atomic.Bool    // the controllers that migrate have been built
}
