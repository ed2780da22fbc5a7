package layout

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManagedBy is the value of the managed-by label on the slices that this controller owns. Slices with any other value, or
// without the label, are not its own.
const ManagedBy = "endpointslice-controller.k8s.io"

// Managed reports whether a slice is one of this controller's.
func Managed(s *discoveryv1.EndpointSlice) bool {
	return s.Labels[discoveryv1.LabelManagedBy] == ManagedBy
}

// OwnedBy reports whether a slice belongs to this Service, and not to an earlier one of the same name.
func OwnedBy(s *discoveryv1.EndpointSlice, svc *corev1.Service) bool {
	for i := range s.OwnerReferences {
		if o := &s.OwnerReferences[i]; o.UID == svc.UID && o.Kind == "Service" && o.APIVersion == "v1" {
			return true
		}
	}
	return false
}

// reserved reports whether the controller sets a label itself instead of copying it from the Service.
func reserved(label string) bool {
	return label == discoveryv1.LabelServiceName || label == discoveryv1.LabelManagedBy || label == corev1.IsHeadlessService
}

// labelsOf returns the labels of a Service's slices: the Service's own and the reserved ones.
func labelsOf(svc *corev1.Service) map[string]string {
	out := make(map[string]string, len(svc.Labels)+3)
	for k, v := range svc.Labels {
		if !reserved(k) {
			out[k] = v
		}
	}
	if !hasClusterIP(svc) {
		out[corev1.IsHeadlessService] = ""
	}
	out[discoveryv1.LabelServiceName] = svc.Name
	out[discoveryv1.LabelManagedBy] = ManagedBy
	return out
}

// hasLabelsOf reports whether a slice has the labels of the Service, and the headless label only if the Service is headless.
// The other reserved labels need no check, because the slice was found by them.
func hasLabelsOf(s *discoveryv1.EndpointSlice, svc *corev1.Service) bool {
	if _, headless := s.Labels[corev1.IsHeadlessService]; headless == hasClusterIP(svc) {
		return false
	}
	want := 0
	for k, v := range svc.Labels {
		if reserved(k) {
			continue
		}
		if have, ok := s.Labels[k]; !ok || have != v {
			return false
		}
		want++
	}
	have := 0
	for k := range s.Labels {
		if !reserved(k) {
			have++
		}
	}
	return have == want
}

// newSlice returns a slice to be created.
func (p *packer) newSlice(ports []discoveryv1.EndpointPort, endpoints []discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    prefix(p.Service.Name),
			Namespace:       p.Service.Namespace,
			Labels:          p.labels(),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p.Service, corev1.SchemeGroupVersion.WithKind("Service"))},
		},
		AddressType: p.Family,
		Ports:       ports,
		Endpoints:   endpoints,
	}
}

// revise returns a copy of an existing slice with new endpoints and the labels of the Service. The copy is shallow except
// for what may be changed later.
func (p *packer) revise(s *discoveryv1.EndpointSlice, endpoints []discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	next := *s
	next.Labels = p.labels()
	next.Annotations = maps.Clone(s.Annotations)
	next.Endpoints = endpoints
	return &next
}

// labels returns a copy of the labels for the slices of the Service.
func (p *packer) labels() map[string]string {
	if p.wantLabels == nil {
		p.wantLabels = labelsOf(p.Service)
	}
	return maps.Clone(p.wantLabels)
}

// prefix returns the prefix of generated slice names: the Service's name, followed by a dash if that is still a valid name.
func prefix(service string) string {
	if dashed := service + "-"; len(validation.NameIsDNSSubdomain(dashed, true)) == 0 {
		return dashed
	}
	return service
}
