package nodelifecycle

import (
	compmetrics "k8s.io/component-base/metrics"
)

type metrics struct {
	evictions *compmetrics.CounterVec
	size      *compmetrics.GaugeVec
	healthy   *compmetrics.GaugeVec
	unhealthy *compmetrics.GaugeVec
	oneNode   *compmetrics.Histogram
	allNodes  *compmetrics.Histogram
}

func newMetrics() metrics {
	const subsystem = "node_collector"
	zone := []string{"zone"}
	gauge := func(name, help string) *compmetrics.GaugeVec {
		return compmetrics.NewGaugeVec(&compmetrics.GaugeOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: compmetrics.ALPHA}, zone)
	}
	return metrics{
		evictions: compmetrics.NewCounterVec(&compmetrics.CounterOpts{
			Subsystem: subsystem, Name: "evictions_total", StabilityLevel: compmetrics.STABLE,
			Help: "Nodes whose pods were evicted since this process became leader, by zone.",
		}, zone),
		size:      gauge("zone_size", "Nodes of the zone."),
		healthy:   gauge("zone_health", "Percentage of the zone's nodes that are ready."),
		unhealthy: gauge("unhealthy_nodes_in_zone", "Nodes of the zone that are not ready."),
		oneNode: compmetrics.NewHistogram(&compmetrics.HistogramOpts{
			Subsystem: subsystem, Name: "update_node_health_duration_seconds", StabilityLevel: compmetrics.ALPHA,
			Help:    "Time spent on one node in one check of all heartbeats.",
			Buckets: compmetrics.ExponentialBuckets(0.001, 4, 8), // 1 ms to about 15 s
		}),
		allNodes: compmetrics.NewHistogram(&compmetrics.HistogramOpts{
			Subsystem: subsystem, Name: "update_all_nodes_health_duration_seconds", StabilityLevel: compmetrics.ALPHA,
			Help:    "Duration of one check of the heartbeats of all nodes.",
			Buckets: compmetrics.ExponentialBuckets(0.01, 4, 8), // 10 ms to about 3 min
		}),
	}
}

func (m metrics) all() []compmetrics.Registerable {
	return []compmetrics.Registerable{m.evictions, m.size, m.healthy, m.unhealthy, m.oneNode, m.allNodes}
}

// zone sets the gauges of a zone; a zone without nodes counts as healthy.
func (m metrics) zone(name string, c count) {
	m.size.WithLabelValues(name).Set(float64(c.total()))
	m.unhealthy.WithLabelValues(name).Set(float64(c.lost))
	health := 100.0
	if c.total() > 0 {
		health = 100 * float64(c.ready) / float64(c.total())
	}
	m.healthy.WithLabelValues(name).Set(health)
}
