package podgc

import (
	compmetrics "k8s.io/component-base/metrics"
)

// Reasons of a removal in metrics and logs.
const (
	reasonTerminated   = "terminated"
	reasonOutOfService = "out-of-service"
	reasonOrphaned     = "orphaned"
	reasonUnscheduled  = "unscheduled"
)

type metrics struct {
	deletions *compmetrics.CounterVec
	errors    *compmetrics.CounterVec
}

func newMetrics() metrics {
	labels := []string{"namespace", "reason"}
	return metrics{
		deletions: compmetrics.NewCounterVec(&compmetrics.CounterOpts{
			Subsystem: "pod_gc_collector", Name: "force_delete_pods_total", StabilityLevel: compmetrics.ALPHA,
			Help: "Pods removed with grace period 0, by namespace and reason.",
		}, labels),
		errors: compmetrics.NewCounterVec(&compmetrics.CounterOpts{
			Subsystem: "pod_gc_collector", Name: "force_delete_pod_errors_total", StabilityLevel: compmetrics.ALPHA,
			Help: "Removals of pods that failed, by namespace and reason.",
		}, labels),
	}
}
