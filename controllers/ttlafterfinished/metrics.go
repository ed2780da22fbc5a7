package ttlafterfinished

import (
	compmetrics "k8s.io/component-base/metrics"
)

type metrics struct {
	deletion *compmetrics.Histogram
}

func newMetrics() metrics {
	return metrics{deletion: compmetrics.NewHistogram(&compmetrics.HistogramOpts{
		Subsystem: "ttl_after_finished_controller", Name: "job_deletion_duration_seconds", StabilityLevel: compmetrics.ALPHA,
		Help:    "Time from the moment a finished Job could be deleted to its deletion.",
		Buckets: compmetrics.ExponentialBuckets(0.1, 2, 14), // up to about 27 minutes
	})}
}
