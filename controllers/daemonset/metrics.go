package daemonset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	compmetrics "k8s.io/component-base/metrics"
)

type metrics struct {
	skips *compmetrics.CounterVec
}

func newMetrics() metrics {
	return metrics{
		skips: compmetrics.NewCounterVec(&compmetrics.CounterOpts{
			Subsystem: "daemonset_controller", Name: "stale_sync_skips_total", StabilityLevel: compmetrics.ALPHA,
			Help: "Reconciles of DaemonSets put off because the cache did not show the controller's last write yet.",
		}, []string{"group", "resource"}),
	}
}

// publish registers the metrics, each at zero.
func (m metrics) publish(register func(...compmetrics.Registerable)) {
	register(m.skips)
	for _, written := range []schema.GroupResource{
		corev1.Resource("pods"), appsv1.Resource("daemonsets"), appsv1.Resource("controllerrevisions"),
	} {
		m.skips.WithLabelValues(written.Group, written.Resource)
	}
}

func (m metrics) skipped(stale schema.GroupResource) {
	m.skips.WithLabelValues(stale.Group, stale.Resource).Inc()
}
