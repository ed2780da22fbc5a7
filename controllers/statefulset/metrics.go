package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	compmetrics "k8s.io/component-base/metrics"

	"orrery/kit"
)

type metrics struct {
	maxUnavailable *compmetrics.GaugeVec
	unavailable    *compmetrics.GaugeVec
	skips          *compmetrics.CounterVec
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
		skips: compmetrics.NewCounterVec(&compmetrics.CounterOpts{
			Subsystem: subsystem, Name: "stale_sync_skips_total", StabilityLevel: compmetrics.ALPHA,
			Help: "Reconciles of StatefulSets put off because the cache did not show the controller's last write yet.",
		}, []string{"group", "resource"}),
	}
}

// publish registers the metrics, those that do not depend on sets at zero.
func (m metrics) publish(register func(...compmetrics.Registerable)) {
	register(m.maxUnavailable, m.unavailable, m.skips)
	written := []schema.GroupResource{
		corev1.Resource("pods"), corev1.Resource("persistentvolumeclaims"),
		appsv1.Resource("statefulsets"), appsv1.Resource("controllerrevisions"),
	}
	for _, resource := range written {
		m.skips.WithLabelValues(resource.Group, resource.Resource)
	}
}

func (m metrics) skipped(stale schema.GroupResource) {
	m.skips.WithLabelValues(stale.Group, stale.Resource).Inc()
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
