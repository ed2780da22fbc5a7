package rootcapublisher

import (
	"errors"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	compmetrics "k8s.io/component-base/metrics"
)

type metrics struct {
	syncs     *compmetrics.CounterVec
	durations *compmetrics.HistogramVec
}

func newMetrics() metrics {
	return metrics{
		syncs: compmetrics.NewCounterVec(&compmetrics.CounterOpts{
			Subsystem: "root_ca_cert_publisher", Name: "sync_total", StabilityLevel: compmetrics.ALPHA,
			Help: "Reconciles of namespaces, by the HTTP status of the outcome.",
		}, []string{"code"}),
		durations: compmetrics.NewHistogramVec(&compmetrics.HistogramOpts{
			Subsystem: "root_ca_cert_publisher", Name: "sync_duration_seconds", StabilityLevel: compmetrics.ALPHA,
			Help:    "Duration of one reconcile of a namespace, by the HTTP status of the outcome.",
			Buckets: compmetrics.ExponentialBuckets(0.001, 2, 15),
		}, []string{"code"}),
	}
}

func (m metrics) observe(err error, took time.Duration) {
	code := "200"
	if err != nil {
		code = "500"
		var status apierrors.APIStatus
		if errors.As(err, &status) && status.Status().Code != 0 {
			code = strconv.Itoa(int(status.Status().Code))
		}
	}
	m.syncs.WithLabelValues(code).Inc()
	m.durations.WithLabelValues(code).Observe(took.Seconds())
}
