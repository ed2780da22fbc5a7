package replicaset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	compmetrics "k8s.io/component-base/metrics"
)

type metrics struct {
	ageRatio *compmetrics.Histogram
	skips    *compmetrics.CounterVec
}

func newMetrics() metrics {
	const subsystem = "replicaset_controller"
	return metrics{
		ageRatio: compmetrics.NewHistogram(&compmetrics.HistogramOpts{
			Subsystem: subsystem, Name: "sorting_deletion_age_ratio", StabilityLevel: compmetrics.ALPHA,
			Help:    "Age of a ready pod chosen for deletion over that of the youngest ready pod. Values of 2 and more mean that old pods are deleted although younger ones could be.",
			Buckets: compmetrics.ExponentialBuckets(0.25, 2, 6),
		}),
		skips: compmetrics.NewCounterVec(&compmetrics.CounterOpts{
			Subsystem: subsystem, Name: "stale_sync_skips_total", StabilityLevel: compmetrics.ALPHA,
			Help: "Reconciles of ReplicaSets put off because the cache did not show the controller's last write yet.",
		}, []string{"group", "resource"}),
	}
}

// publish registers the metrics, each at zero.
func (m metrics) publish(register func(...compmetrics.Registerable)) {
	register(m.ageRatio, m.skips)
	for _, written := range []schema.GroupResource{corev1.Resource("pods"), appsv1.Resource("replicasets")} {
		m.skips.WithLabelValues(written.Group, written.Resource)
	}
}

func (m metrics) skipped(stale schema.GroupResource) {
	m.skips.WithLabelValues(stale.Group, stale.Resource).Inc()
}
