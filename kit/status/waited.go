package status

import (
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
)

// waited returns how long requests have waited for the client-side rate limit in total, from client-go's metric.
func waited() time.Duration {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return 0
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != "rest_client_rate_limiter_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetHistogram().GetSampleSum()
		}
	}
	return time.Duration(sum * float64(time.Second))
}
