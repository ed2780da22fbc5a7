package webhook

import (
	"net/http"
	"strconv"
	"time"

	compmetrics "k8s.io/component-base/metrics"

	"orrery/kit/httpx"
)

// serverMetrics measure the requests of a server by path.
type serverMetrics struct {
	requests  *compmetrics.CounterVec
	durations *compmetrics.HistogramVec
	inFlight  *compmetrics.GaugeVec
	panics    *compmetrics.CounterVec
}

func newMetrics() *serverMetrics {
	return &serverMetrics{
		requests: compmetrics.NewCounterVec(&compmetrics.CounterOpts{
			Namespace: "orrery", Subsystem: "webhook", Name: "requests_total", StabilityLevel: compmetrics.ALPHA,
			Help: "Admission requests by path and HTTP status. For any status but 200 the API server applies the failurePolicy.",
		}, []string{"webhook", "code"}),
		durations: compmetrics.NewHistogramVec(&compmetrics.HistogramOpts{
			Namespace: "orrery", Subsystem: "webhook", Name: "request_duration_seconds", StabilityLevel: compmetrics.ALPHA,
			Help:    "Duration of one admission request, for which the writer of the object waits.",
			Buckets: compmetrics.ExponentialBuckets(0.0005, 4, 10),
		}, []string{"webhook"}),
		inFlight: compmetrics.NewGaugeVec(&compmetrics.GaugeOpts{
			Namespace: "orrery", Subsystem: "webhook", Name: "requests_in_flight", StabilityLevel: compmetrics.ALPHA,
			Help: "Admission requests being served.",
		}, []string{"webhook"}),
		panics: compmetrics.NewCounterVec(&compmetrics.CounterOpts{
			Namespace: "orrery", Subsystem: "webhook", Name: "panics_total", StabilityLevel: compmetrics.ALPHA,
			Help: "Panics caught in handlers. Anything above zero is a fault in the webhook.",
		}, []string{"webhook"}),
	}
}

func (m *serverMetrics) all() []compmetrics.Registerable {
	return []compmetrics.Registerable{m.requests, m.durations, m.inFlight, m.panics}
}

// start creates the series of a path at zero.
func (m *serverMetrics) start(path string) {
	for _, code := range []int{http.StatusOK, http.StatusInternalServerError} {
		m.requests.WithLabelValues(path, strconv.Itoa(code)).Add(0)
	}
	m.inFlight.WithLabelValues(path).Set(0)
	m.panics.WithLabelValues(path).Add(0)
}

// measured serves a path: it measures requests, and turns a panic into status 500.
type measured struct {
	path string
	next http.Handler
	s    *Server
}

// ServeHTTP implements http.Handler.
func (h measured) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m, start := h.s.metrics, time.Now()
	answer := &httpx.StatusWriter{ResponseWriter: w}
	m.inFlight.WithLabelValues(h.path).Inc()
	defer func() {
		m.inFlight.WithLabelValues(h.path).Dec()
		m.requests.WithLabelValues(h.path, strconv.Itoa(answer.Status)).Inc()
		m.durations.WithLabelValues(h.path).Observe(time.Since(start).Seconds())
	}()
	if p := httpx.Serve(h.next, answer, r); p != nil {
		m.panics.WithLabelValues(h.path).Inc()
		h.s.log.Error(p, "Caught a panic", "webhook", h.path, "stack", string(p.Stack))
	}
}
