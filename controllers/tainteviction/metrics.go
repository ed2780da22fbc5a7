package tainteviction

import (
	compmetrics "k8s.io/component-base/metrics"
)

type metrics struct {
	deletions *compmetrics.Counter
	latency   *compmetrics.Histogram
}

func newMetrics() metrics {
	const subsystem = "taint_eviction_controller"
	return metrics{
		deletions: compmetrics.NewCounter(&compmetrics.CounterOpts{
			Subsystem: subsystem, Name: "pod_deletions_total", StabilityLevel: compmetrics.ALPHA,
			Help: "Pods deleted because of a taint since this process became leader.",
		}),
		latency: compmetrics.NewHistogram(&compmetrics.HistogramOpts{
			Subsystem: subsystem, Name: "pod_deletion_duration_seconds", StabilityLevel: compmetrics.ALPHA,
			Help:    "Time between the moment a pod was due to be deleted and its deletion.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240}, // 5 ms to 4 min
		}),
	}
}
