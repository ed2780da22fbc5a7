package garbagecollector

import (
	compmetrics "k8s.io/component-base/metrics"
)

type metrics struct {
	syncErrors *compmetrics.Counter
}

func newMetrics() *metrics {
	return &metrics{syncErrors: compmetrics.NewCounter(&compmetrics.CounterOpts{
		Subsystem: "garbagecollector_controller", Name: "resources_sync_error_total", StabilityLevel: compmetrics.ALPHA,
		Help: "Failures to discover, watch or list the kinds to collect. A rising count means that objects of some kind are not collected.",
	})}
}
