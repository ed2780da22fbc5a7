package skips

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	compmetrics "k8s.io/component-base/metrics"
)

// Counter is the metric stale_sync_skips_total of one controller.
type Counter struct{ *compmetrics.CounterVec }

// New returns the counter of the controller with that metric subsystem, which reconciles objects of that kind.
func New(subsystem, kind string) Counter {
	return Counter{compmetrics.NewCounterVec(&compmetrics.CounterOpts{
		Subsystem: subsystem, Name: "stale_sync_skips_total", StabilityLevel: compmetrics.ALPHA,
		Help: "Reconciles of " + kind + "s put off because the cache did not show the controller's last write yet.",
	}, []string{"group", "resource"})}
}

// Start makes the series of the resources that the controller writes exist at zero. The counter must be registered.
func (c Counter) Start(written ...schema.GroupResource) {
	for _, r := range written {
		c.WithLabelValues(r.Group, r.Resource)
	}
}

// Add counts a reconcile that waits for the cache of a resource.
func (c Counter) Add(stale schema.GroupResource) {
	c.WithLabelValues(stale.Group, stale.Resource).Inc()
}
