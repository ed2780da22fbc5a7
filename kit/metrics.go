package kit

import (
	compmetrics "k8s.io/component-base/metrics"
)

// Metrics are the measurements of every control loop, labelled by controller. Queue metrics come from client-go under
// the usual workqueue names.
type Metrics struct {
	reconciles *compmetrics.CounterVec
	durations  *compmetrics.HistogramVec
	panics     *compmetrics.CounterVec
	skips      *compmetrics.CounterVec
	workers    *compmetrics.GaugeVec
	active     *compmetrics.GaugeVec
}

// NewMetrics returns the metrics, which count nothing until registered.
func NewMetrics() *Metrics {
	return &Metrics{
		reconciles: compmetrics.NewCounterVec(&compmetrics.CounterOpts{
			Namespace: "orrery", Name: "reconcile_total", StabilityLevel: compmetrics.ALPHA,
			Help: "Reconciles by outcome. A rising rate of failed or panicked ones means that objects are not brought to their desired state.",
		}, []string{"controller", "outcome"}),
		durations: compmetrics.NewHistogramVec(&compmetrics.HistogramOpts{
			Namespace: "orrery", Name: "reconcile_duration_seconds", StabilityLevel: compmetrics.ALPHA,
			Help:    "Duration of one reconcile.",
			Buckets: compmetrics.ExponentialBuckets(0.0005, 4, 10),
		}, []string{"controller"}),
		panics: compmetrics.NewCounterVec(&compmetrics.CounterOpts{
			Namespace: "orrery", Name: "reconcile_panics_total", StabilityLevel: compmetrics.ALPHA,
			Help: "Panics caught in reconciles, filters and handlers. Anything above zero is a fault in the controller.",
		}, []string{"controller"}),
		skips: compmetrics.NewCounterVec(&compmetrics.CounterOpts{
			Namespace: "orrery", Name: "stale_sync_skips_total", StabilityLevel: compmetrics.ALPHA,
			Help: "Reconciles put off because the cache did not show the controller's own last writes yet.",
		}, []string{"controller"}),
		workers: compmetrics.NewGaugeVec(&compmetrics.GaugeOpts{
			Namespace: "orrery", Name: "max_concurrent_reconciles", StabilityLevel: compmetrics.ALPHA,
			Help: "Workers of the loop: the maximum number of keys that it reconciles at once.",
		}, []string{"controller"}),
		active: compmetrics.NewGaugeVec(&compmetrics.GaugeOpts{
			Namespace: "orrery", Name: "active_workers", StabilityLevel: compmetrics.ALPHA,
			Help: "Busy workers. If the number stays at the maximum while the queue grows, the loop has too few workers.",
		}, []string{"controller"}),
	}
}

// Registerables returns the metrics for registration.
func (m *Metrics) Registerables() []compmetrics.Registerable {
	return []compmetrics.Registerable{m.reconciles, m.durations, m.panics, m.skips, m.workers, m.active}
}

// start makes the series of a loop exist at zero, and that of the panics that belong to no one loop of its controller.
func (m *Metrics) start(controller, loop string, workers int) {
	for _, o := range outcomes {
		m.reconciles.WithLabelValues(loop, string(o)).Add(0)
	}
	m.panics.WithLabelValues(controller).Add(0)
	m.panics.WithLabelValues(loop).Add(0)
	m.skips.WithLabelValues(loop).Add(0)
	m.workers.WithLabelValues(loop).Set(float64(workers))
	m.active.WithLabelValues(loop).Set(0)
}
