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
		Help: "Times that the kinds to collect could not be found, watched or filled. A rising count means that objects of some kind are not collected.",
	})}
}
