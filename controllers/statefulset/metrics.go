package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	compmetrics "k8s.io/component-base/metrics"

	"orrery/controllers/internal/skips"
	"orrery/kit"
)

type metrics struct {
	maxUnavailable *compmetrics.GaugeVec
	unavailable    *compmetrics.GaugeVec
	skips          skips.Counter
}

func newMetrics() metrics {
	const subsystem = "statefulset_controller"
	labels := []string{"statefulset_namespace", "statefulset_name", "pod_management_policy"}
	return metrics{
		maxUnavailable: compmetrics.NewGaugeVec(&compmetrics.GaugeOpts{
			Subsystem: subsystem, Name: "statefulset_max_unavailable", StabilityLevel: compmetrics.ALPHA,
			Help: "Pods of a StatefulSet that may be unavailable at once while it is updated.",
		}, labels),
		unavailable: compmetrics.NewGaugeVec(&compmetrics.GaugeOpts{
			Subsystem: subsystem, Name: "statefulset_unavailable_replicas", StabilityLevel: compmetrics.ALPHA,
			Help: "Pods of a StatefulSet that are missing, being deleted, or not available.",
		}, labels),
		skips: skips.New(subsystem, "StatefulSet"),
	}
}

// publish registers the metrics, those that do not depend on sets at zero.
func (m metrics) publish(register func(...compmetrics.Registerable)) {
	register(m.maxUnavailable, m.unavailable, m.skips)
	m.skips.Start(
		corev1.Resource("pods"), corev1.Resource("persistentvolumeclaims"),
		appsv1.Resource("statefulsets"), appsv1.Resource("controllerrevisions"),
	)
}

func (m metrics) observe(s *state) {
	labels := []string{s.set.Namespace, s.set.Name, string(s.set.Spec.PodManagementPolicy)}
	m.maxUnavailable.WithLabelValues(labels...).Set(float64(s.maxUnavailable))
	m.unavailable.WithLabelValues(labels...).Set(float64(s.unavailable))
}

// forget drops what was told of a set that is gone.
func (m metrics) forget(key kit.Key) {
	for _, policy := range []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement} {
		m.maxUnavailable.DeleteLabelValues(key.Namespace, key.Name, string(policy))
		m.unavailable.DeleteLabelValues(key.Namespace, key.Name, string(policy))
	}
}
