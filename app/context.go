package app

import (
	"cmp"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics/legacyregistry"

	"orrery/kit"
	"orrery/kit/client"
)

// contextFor returns the context that a controller is built with: that of its lease, under the controller's identity.
func (b *contextBuilder) contextFor(d kit.Descriptor) (ControllerContext, error) {
	m, c := b.daemon.manager, b.connections[d.Name]
	events, err := b.tenure.PublisherWithLease(c.config)
	if err != nil {
		return ControllerContext{}, err
	}
	cc := b.tenure.Context(d.Name)
	cc.Client = c.client.WithCache(m.Cache())
	cc.Live = cc.Client.Live()
	cc.Recorder = events.Recorder(m.Scheme(), cmp.Or(d.EventSource, d.Name))
	if cc.DryRun = b.daemon.dryRun; cc.DryRun != nil {
		cc.Recorder = &record.FakeRecorder{} // drops every event: what they would report has not happened
	}
	cc.Available, cc.Register = b.available, legacyregistry.MustRegister
	cc.PanicPolicy = b.daemon.options.PanicPolicy
	return cc, nil
}

// available reports whether the server serves a resource, as far as the mapper, which all controllers share, knows.
func (b *contextBuilder) available(gvr schema.GroupVersionResource) bool {
	return client.ServesResource(b.daemon.clients.mapper.Known(), gvr)
}
