package endpointslice

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	compmetrics "k8s.io/component-base/metrics"

	"orrery/controllers/endpointslice/layout"
	"orrery/kit"
	"orrery/kit/client"
)

const subsystem = "endpoint_slice_controller"

// metrics have upstream's names and labels. The gauges are sums over all Services.
type metrics struct {
	added, removed               *compmetrics.HistogramVec
	desired, slices, sliceTarget *compmetrics.GaugeVec
	changes, syncs               *compmetrics.CounterVec
	changedPerSync               *compmetrics.HistogramVec
	distributions                *compmetrics.GaugeVec
	maxEndpoints                 int

	mu         sync.Mutex // guards the fields below
	byFamily   map[familyKey]totals
	sum        totals
	preference map[kit.Key]string
	preferring map[string]int
}

type familyKey struct {
	service kit.Key
	family  discoveryv1.AddressType
}

// totals is what one family of a Service contributes to the gauges.
type totals struct{ endpoints, slices, target int }

func newMetrics(maxEndpoints int) *metrics {
	sizes := compmetrics.ExponentialBuckets(2, 2, 15)
	m := &metrics{
		maxEndpoints: maxEndpoints, byFamily: map[familyKey]totals{}, preference: map[kit.Key]string{}, preferring: map[string]int{},
		added:       histogram("endpoints_added_per_sync", "Number of endpoints added on each Service sync", compmetrics.BETA, sizes),
		removed:     histogram("endpoints_removed_per_sync", "Number of endpoints removed on each Service sync", compmetrics.BETA, sizes),
		desired:     gauge("endpoints_desired", "Number of endpoints desired"),
		slices:      gauge("num_endpoint_slices", "Number of EndpointSlices"),
		sliceTarget: gauge("desired_endpoint_slices", "Number of EndpointSlices that would exist with perfect endpoint allocation"),
		changes:     counter("changes", "Number of EndpointSlice changes", "operation"),
		syncs:       counter("syncs", "Number of EndpointSlice syncs", "result"),
		changedPerSync: histogram("endpointslices_changed_per_sync", "Number of EndpointSlices changed on each Service sync",
			compmetrics.ALPHA, nil, "topology", "traffic_distribution"),
		distributions: gauge("services_count_by_traffic_distribution", "Number of Services using some specific trafficDistribution", "traffic_distribution"),
	}
	return m
}

func histogram(name, help string, level compmetrics.StabilityLevel, buckets []float64, labels ...string) *compmetrics.HistogramVec {
	return compmetrics.NewHistogramVec(&compmetrics.HistogramOpts{
		Subsystem: subsystem, Name: name, Help: help, StabilityLevel: level, Buckets: buckets,
	}, labels)
}

func gauge(name, help string, labels ...string) *compmetrics.GaugeVec {
	return compmetrics.NewGaugeVec(&compmetrics.GaugeOpts{
		Subsystem: subsystem, Name: name, Help: help, StabilityLevel: compmetrics.BETA,
	}, labels)
}

func counter(name, help string, labels ...string) *compmetrics.CounterVec {
	return compmetrics.NewCounterVec(&compmetrics.CounterOpts{
		Subsystem: subsystem, Name: name, Help: help, StabilityLevel: compmetrics.ALPHA,
	}, labels)
}

func (m *metrics) registerables() []compmetrics.Registerable {
	return []compmetrics.Registerable{
		m.added, m.removed, m.desired, m.slices, m.sliceTarget, m.changes, m.syncs, m.changedPerSync, m.distributions,
	}
}

// synced counts a reconcile by its result. A write that is rejected because the namespace is terminating is no failure.
func (m *metrics) synced(err error) {
	result := "success"
	if err != nil && slices.ContainsFunc(flatten(err), func(e error) bool { return !client.IsNamespaceTerminating(e) }) {
		result = "error"
	}
	m.syncs.WithLabelValues(result).Inc()
}

// stale counts a reconcile that was delayed because the cache does not show the last write yet.
func (m *metrics) stale(schema.GroupResource) { m.syncs.WithLabelValues("stale").Inc() }

// change counts one write: create, update or delete.
func (m *metrics) change(operation string) { m.changes.WithLabelValues(operation).Inc() }

// applied counts the slices that one reconcile changed in one family.
func (m *metrics) applied(svc *corev1.Service, changes int) {
	topology := "Disabled"
	if layout.Auto(svc) {
		topology = "Auto"
	}
	m.changedPerSync.WithLabelValues(topology, layout.Preference(svc)).Observe(float64(changes))
}

// planned records the plan for the slices of one family.
func (m *metrics) planned(svc *corev1.Service, family discoveryv1.AddressType, plan *layout.Plan) {
	m.added.WithLabelValues().Observe(float64(plan.Added))
	m.removed.WithLabelValues().Observe(float64(plan.Removed))
	var now totals
	for _, g := range plan.Groups {
		now.endpoints += g.Endpoints
		now.slices += g.Slices
		now.target += (g.Endpoints + m.maxEndpoints - 1) / m.maxEndpoints
	}
	now.target = max(now.target, 1) // the placeholder
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replace(familyKey{kit.KeyOf(svc), family}, now)
	m.prefer(kit.KeyOf(svc), layout.Preference(svc))
}

// keep removes the families that a Service no longer has from the gauges.
func (m *metrics) keep(key kit.Key, families []discoveryv1.AddressType) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keepLocked(key, families)
}

func (m *metrics) keepLocked(key kit.Key, families []discoveryv1.AddressType) {
	for _, family := range [...]discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		k := familyKey{key, family}
		if _, counted := m.byFamily[k]; counted && !slices.Contains(families, family) {
			m.replace(k, totals{})
		}
	}
}

// replace replaces the contribution of one family to the sums. m.mu is held.
func (m *metrics) replace(key familyKey, now totals) {
	was := m.byFamily[key]
	m.sum.endpoints += now.endpoints - was.endpoints
	m.sum.slices += now.slices - was.slices
	m.sum.target += now.target - was.target
	if now == (totals{}) {
		delete(m.byFamily, key)
	} else {
		m.byFamily[key] = now
	}
	m.desired.WithLabelValues().Set(float64(m.sum.endpoints))
	m.slices.WithLabelValues().Set(float64(m.sum.slices))
	m.sliceTarget.WithLabelValues().Set(float64(m.sum.target))
}

// prefer records the traffic distribution of a Service; "" is none. m.mu is held.
func (m *metrics) prefer(key kit.Key, now string) {
	was := m.preference[key]
	if was == now {
		return
	}
	if was != "" {
		m.preferring[was]--
		m.distributions.WithLabelValues(was).Set(float64(m.preferring[was]))
	}
	if now == "" {
		delete(m.preference, key)
		return
	}
	m.preference[key] = now
	m.preferring[now]++
	m.distributions.WithLabelValues(now).Set(float64(m.preferring[now]))
}

// forget removes a deleted Service from the gauges.
func (m *metrics) forget(key kit.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keepLocked(key, nil)
	m.prefer(key, "")
}
