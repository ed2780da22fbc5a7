package replicaset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	compmetrics "k8s.io/component-base/metrics"

	"orrery/controllers/internal/skips"
)

type metrics struct {
	ageRatio *compmetrics.Histogram
	skips    skips.Counter
}

func newMetrics() metrics {
	const subsystem = "replicaset_controller"
	return metrics{
		ageRatio: compmetrics.NewHistogram(&compmetrics.HistogramOpts{
			Subsystem: subsystem, Name: "sorting_deletion_age_ratio", StabilityLevel: compmetrics.ALPHA,
			Help:    "Age of a ready pod chosen for deletion over that of the youngest ready pod. Values of 2 and more mean that old pods are deleted although younger ones could be.",
			Buckets: compmetrics.ExponentialBuckets(0.25, 2, 6),
		}),
		skips: skips.New(subsystem, "ReplicaSet"),
	}
}

// publish registers the metrics, each at zero.
func (m metrics) publish(register func(...compmetrics.Registerable)) {
	register(m.ageRatio, m.skips)
	m.skips.Start(corev1.Resource("pods"), appsv1.Resource("replicasets"))
}
