package cronjob

import (
	compmetrics "k8s.io/component-base/metrics"
)

type metrics struct {
	skew *compmetrics.Histogram
}

func newMetrics() metrics {
	return metrics{skew: compmetrics.NewHistogram(&compmetrics.HistogramOpts{
		Subsystem: "cronjob_controller", Name: "job_creation_skew_duration_seconds", StabilityLevel: compmetrics.STABLE,
		Help:    "How long after its scheduled time the Job of a CronJob was created.",
		Buckets: compmetrics.ExponentialBuckets(1, 2, 10), // up to about 17 minutes
	})}
}
