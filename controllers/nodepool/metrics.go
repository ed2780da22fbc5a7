package nodepool

import (
	compmetrics "k8s.io/component-base/metrics"

	"orrery/controllers/nodepool/record"
)

type metrics struct {
	writes  *compmetrics.Counter
	repairs *compmetrics.CounterVec
}

func newMetrics() metrics {
	const prefix = "orrery_nodepool_"
	m := metrics{
		writes: compmetrics.NewCounter(&compmetrics.CounterOpts{
			Name: prefix + "node_writes_total", StabilityLevel: compmetrics.ALPHA,
			Help: "Writes that brought Nodes to the state that their pools specify.",
		}),
		repairs: compmetrics.NewCounterVec(&compmetrics.CounterOpts{
			Name: prefix + "drift_repairs_total", StabilityLevel: compmetrics.ALPHA,
			Help: "Keys of Nodes that were restored because somebody else had changed them, by kind: label, annotation or taint.",
		}, []string{"kind"}),
	}
	return m
}

// publish registers the metrics, each at zero.
func (m metrics) publish(register func(...compmetrics.Registerable)) {
	register(m.writes, m.repairs)
	for _, kind := range []record.Kind{record.Label, record.Annotation, record.Taint} {
		m.repairs.WithLabelValues(string(kind))
	}
}

// repaired counts keys that were set again after someone else had changed them.
func (m metrics) repaired(keys []record.Key) {
	for _, k := range keys {
		m.repairs.WithLabelValues(string(k.Kind)).Inc()
	}
}
