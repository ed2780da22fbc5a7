package endpointslice

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"orrery/controllers/endpointslice/layout"
	"orrery/controllers/internal/podctl"
	"orrery/controllers/internal/roster"
	"orrery/kit"
	"orrery/kit/cache"
)

// selects reports whether the controller manages slices for a Service: it has a selector and is not of type ExternalName.
func selects(svc *corev1.Service) bool {
	return len(svc.Spec.Selector) > 0 && svc.Spec.Type != corev1.ServiceTypeExternalName
}

func selection(svc *corev1.Service) roster.Selection {
	return roster.Selection{Key: kit.KeyOf(svc), Labels: svc.Spec.Selector}
}

// selections lists what the Services of a namespace select.
func selections(services cache.Store[*corev1.Service]) func(namespace string) []roster.Selection {
	return func(namespace string) []roster.Selection {
		var out []roster.Selection
		for _, svc := range services.List(namespace) {
			if selects(svc) {
				out = append(out, selection(svc))
			}
		}
		return out
	}
}

// servicesOfPod returns the Services whose slices may change with a pod, and keeps the roster up to date.
func (r *reconciler) servicesOfPod(old, now *corev1.Pod) []kit.Key {
	switch {
	case old == nil:
		return onlyIf(layout.Listed(now), r.roster.Enter(now))
	case now == nil:
		return onlyIf(layout.Listed(old), r.roster.Leave(old))
	case old.UID != now.UID, !maps.Equal(old.Labels, now.Labels):
		return r.servicesOfRelabelled(old, now)
	case !podChanged(old, now):
		return nil
	}
	return r.roster.Matching(now.Namespace, now.Labels)
}

// servicesOfRelabelled is servicesOfPod for a pod whose labels, or UID, have changed. It leaves out the Services that select
// the pod before and after if its endpoint does not change.
func (r *reconciler) servicesOfRelabelled(old, now *corev1.Pod) []kit.Key {
	was, is := r.roster.Matching(old.Namespace, old.Labels), r.roster.Enter(now)
	if !layout.Listed(old) && !layout.Listed(now) {
		return nil
	}
	changed := podChanged(old, now)
	var keys []kit.Key
	for _, k := range is {
		if changed || !slices.Contains(was, k) {
			keys = append(keys, k)
		}
	}
	for _, k := range was {
		if !slices.Contains(is, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// podChanged reports whether the endpoint of a pod may have changed: its existence, addresses, node or conditions. The
// other fields of an endpoint come from immutable fields of the pod.
func podChanged(old, now *corev1.Pod) bool {
	was, is := layout.Listed(old), layout.Listed(now)
	if !was && !is {
		return false
	}
	return was != is || old.UID != now.UID || old.Spec.NodeName != now.Spec.NodeName ||
		(old.DeletionTimestamp == nil) != (now.DeletionTimestamp == nil) ||
		podctl.Ready(old) != podctl.Ready(now) || !slices.Equal(old.Status.PodIPs, now.Status.PodIPs)
}

func onlyIf(relevant bool, keys []kit.Key) []kit.Key {
	if !relevant {
		return nil
	}
	return keys
}

// servicesOfSlice returns the Services that a slice belongs to, before and after a change.
func servicesOfSlice(old, now *discoveryv1.EndpointSlice) []kit.Key {
	var keys []kit.Key
	for _, s := range [...]*discoveryv1.EndpointSlice{old, now} {
		if s == nil {
			continue
		}
		if key, ok := serviceOf(s); ok && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// serviceOf returns the Service that a slice belongs to; ok is false if this controller does not manage the slice.
func serviceOf(s *discoveryv1.EndpointSlice) (key kit.Key, ok bool) {
	name := s.Labels[discoveryv1.LabelServiceName]
	return kit.Key{Namespace: s.Namespace, Name: name}, name != "" && layout.Managed(s)
}

// servicesOfNode returns the Services that wait for a node that has been added.
func (r *reconciler) servicesOfNode(old, now *corev1.Node) []kit.Key {
	if old != nil || now == nil {
		return nil
	}
	return r.waiting.take(now.Name)
}
