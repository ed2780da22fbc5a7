package layout

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Families returns the address types for which a Service has slices. A Service without spec.ipFamilies was stored by a
// server that did not have the field yet. Then its cluster IP decides, and a headless Service gets both families, so that
// none of its slices is deleted before the server sets the field.
func Families(svc *corev1.Service) []discoveryv1.AddressType {
	var v4, v6 bool
	for _, f := range svc.Spec.IPFamilies {
		v4 = v4 || f == corev1.IPv4Protocol
		v6 = v6 || f == corev1.IPv6Protocol
	}
	if !v4 && !v6 {
		addr, err := netip.ParseAddr(svc.Spec.ClusterIP)
		v6 = !hasClusterIP(svc) || err == nil && addr.Is6()
		v4 = !hasClusterIP(svc) || !v6
	}
	var out []discoveryv1.AddressType
	if v4 {
		out = append(out, discoveryv1.AddressTypeIPv4)
	}
	if v6 {
		out = append(out, discoveryv1.AddressTypeIPv6)
	}
	return out
}

func hasClusterIP(svc *corev1.Service) bool {
	return svc.Spec.ClusterIP != "" && svc.Spec.ClusterIP != corev1.ClusterIPNone
}
