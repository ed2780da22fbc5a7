package app

import (
	"cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics/legacyregistry"

	"orrery/kit"
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
		cc.Recorder = &record.FakeRecorder{} // which keeps nothing: what events say has not happened
	}
	cc.Available, cc.Register = b.available, legacyregistry.MustRegister
	cc.PanicPolicy = b.daemon.options.PanicPolicy
	return cc, nil
}

// available reports whether the server serves a resource. A group that cannot be asked about counts as served, so that
// a broken moment at the start does not turn a controller off.
func (b *contextBuilder) available(gvr schema.GroupVersionResource) bool {
	list, err := b.daemon.clients.mapper.Known().ServerResourcesForGroupVersion(gvr.GroupVersion().String())
	if err != nil || list == nil {
		return err != nil && !apierrors.IsNotFound(err)
	}
	for _, r := range list.APIResources {
		if r.Name == gvr.Resource {
			return true
		}
	}
	return false
}
