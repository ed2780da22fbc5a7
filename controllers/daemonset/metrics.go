package daemonset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	compmetrics "k8s.io/component-base/metrics"

	"orrery/controllers/internal/skips"
)

type metrics struct {
	skips skips.Counter
}

func newMetrics() metrics {
	return metrics{
		skips: skips.New("daemonset_controller", "DaemonSet"),
	}
}

// publish registers the metrics, each at zero.
func (m metrics) publish(register func(...compmetrics.Registerable)) {
	register(m.skips)
	m.skips.Start(corev1.Resource("pods"), appsv1.Resource("daemonsets"), appsv1.Resource("controllerrevisions"))
}
