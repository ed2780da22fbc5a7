package layout

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Auto reports whether a Service requests, by annotation, hints in proportion to the CPUs of the zones. If both
// annotations are set, the deprecated one takes precedence.
func Auto(svc *corev1.Service) bool {
	mode, ok := svc.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	if !ok {
		mode = svc.Annotations[corev1.AnnotationTopologyMode]
	}
	return mode == "Auto" || mode == "auto"
}

// Preference returns the traffic distribution that a Service's hints implement, or "" for none. The annotation for Auto
// takes precedence over the field, and unknown values are ignored.
func Preference(svc *corev1.Service) string {
	if svc.Spec.TrafficDistribution == nil || Auto(svc) {
		return ""
	}
	switch d := *svc.Spec.TrafficDistribution; d {
	case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone,
		corev1.ServiceTrafficDistributionPreferSameNode:
		return d
	}
	return ""
}

// Strip removes all hints, so that traffic may go to any endpoint.
func (p *Plan) Strip() {
	p.reopen(func(s *discoveryv1.EndpointSlice) bool {
		for i := range s.Endpoints {
			if s.Endpoints[i].Hints != nil {
				return true
			}
		}
		return false
	})
	p.eachWritten(func(e *discoveryv1.Endpoint) { e.Hints = nil })
}

// Prefer hints each ready endpoint for its own zone and, with nodes, for its own node.
func (p *Plan) Prefer(nodes bool) {
	p.reopen(func(s *discoveryv1.EndpointSlice) bool {
		for i := range s.Endpoints {
			if e := &s.Endpoints[i]; isReady(e) && !isPreferred(e, nodes) {
				return true
			}
		}
		return false
	})
	p.eachWritten(func(e *discoveryv1.Endpoint) {
		e.Hints = nil
		if !isReady(e) {
			return
		}
		var h discoveryv1.EndpointHints
		if e.Zone != nil {
			h.ForZones = forZone(*e.Zone)
		}
		if nodes && e.NodeName != nil {
			h.ForNodes = []discoveryv1.ForNode{{Name: *e.NodeName}}
		}
		if h.ForZones != nil || h.ForNodes != nil {
			e.Hints = &h
		}
	})
}

// isPreferred reports whether the hints of an endpoint are those that Prefer gives it.
func isPreferred(e *discoveryv1.Endpoint, nodes bool) bool {
	var have discoveryv1.EndpointHints
	if e.Hints != nil {
		have = *e.Hints
	}
	zoneOK := len(have.ForZones) == 0
	if e.Zone != nil {
		zoneOK = len(have.ForZones) == 1 && have.ForZones[0].Name == *e.Zone
	}
	nodeOK := len(have.ForNodes) == 0
	if nodes && e.NodeName != nil {
		nodeOK = len(have.ForNodes) == 1 && have.ForNodes[0].Name == *e.NodeName
	}
	return zoneOK && nodeOK
}

func sameHints(a, b discoveryv1.Endpoint) bool {
	if a.Hints == nil || b.Hints == nil {
		return a.Hints == b.Hints
	}
	return slices.Equal(a.Hints.ForZones, b.Hints.ForZones) && slices.Equal(a.Hints.ForNodes, b.Hints.ForNodes)
}

func forZone(zone string) []discoveryv1.ForZone { return []discoveryv1.ForZone{{Name: zone}} }

func isReady(e *discoveryv1.Endpoint) bool { return flag(e.Conditions.Ready, true) }
