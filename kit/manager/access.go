package manager

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
	"orrery/kit/events"
	"orrery/kit/health"
	"orrery/kit/leader"
	"orrery/kit/webhook"
)

// Client reads from the cache and writes to the server, whether or not this process holds the lease. Controllers have
// clients of their own, which write only while it does; see Context.
func (m *Manager) Client() *client.Client { return m.client }

// Live both reads from and writes to the server.
func (m *Manager) Live() *client.Client { return m.client.Live() }

// Cache holds the informers of all controllers.
func (m *Manager) Cache() *cache.Cache { return m.cache }

// Store returns the typed view of a kind's cache, with indexes to find objects by.
func Store[T any, P client.Ptr[T]](m *Manager, indexes ...cache.Index[P]) (cache.Store[P], error) {
	return cache.Of[T, P](m.cache, indexes...)
}

// Scheme maps Go types to kinds.
func (m *Manager) Scheme() *runtime.Scheme { return m.o.Scheme }

// Mapper maps kinds to resources.
func (m *Manager) Mapper() meta.RESTMapper { return m.o.Mapper }

// Discovery asks the server each time which resources it serves.
func (m *Manager) Discovery() discovery.DiscoveryInterface { return m.discovery }

// Config returns a copy of the configuration of the connection to the server.
func (m *Manager) Config() *rest.Config { return rest.CopyConfig(m.config) }

// Recorder returns a recorder of events that come from the component, whether or not this process holds the lease.
func (m *Manager) Recorder(component string) record.EventRecorder {
	return m.events.Recorder(m.o.Scheme, component)
}

// PublisherWithLease returns a publisher of events that uses another configuration, and ends when what needs the lease has
// stopped.
func (m *Manager) PublisherWithLease(config *rest.Config) (*events.Publisher, error) {
	return m.leadingEvents.under(config)
}

// Webhooks returns the webhook server, or nil if the options ask for none.
func (m *Manager) Webhooks() *webhook.Server { return m.webhooks }

// Fence blocks the writes of what needs the lease while the lease is not held. Wrap it around clients that the manager
// does not make.
func (m *Manager) Fence() *leader.Fence { return m.fence }

// Checks are what the health pages show.
func (m *Manager) Checks() *health.Checks { return m.o.Checks }

// Metrics are the measurements of control loops.
func (m *Manager) Metrics() *kit.Metrics { return m.metrics }
