package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery/hack/localcluster/cluster"
)

// pinned is the annotation of pods whose node the program has chosen, and the label of Services, and so of slices, for which
// all pods are such.
const pinned = "parity/pinned"

// The values of the label.
const (
	// exact compares nodes, zones and hints.
	exact = "exact"
	// timed compares also whether there is a trigger time. That is a matter of chance if two things happen in one second.
	timed = "timed"
	// spread is for hints in proportion to the CPUs of zones: which endpoint is hinted for another zone, and for which of
	// those that lack as many, is a matter of chance.
	spread = "spread"
)

// changeOfSlice draws what a user does to an EndpointSlice.
func (p *servicePlan) changeOfSlice() step {
	r := p.r
	i := r.IntN(6)
	_, name := p.name()
	switch r.IntN(9) {
	// Labels and owner references that somebody has edited are repaired by Orrery alone, unless they are those that the
	// Service gives: see the README's differences, EndpointSlices.
	case 0:
		return slicePatched(i, pick(r, `{"metadata":{"labels":{"team":"green"}}}`, `{"metadata":{"labels":{"team":null}}}`))
	case 1, 2, 3:
		return slicePatched(i, pick(r, `{"endpoints":[{"addresses":["10.77.250.1"]}]}`, `{"endpoints":[]}`, `{"ports":[]}`, `{"ports":[{"name":"x","port":1,"protocol":"TCP"}]}`))
	case 4:
		if p.kind != timed { // whether a slice is replaced, and so loses annotations, depends on how many changes are seen at once
			return sliceDeleted(i)
		}
		return slicePatched(i, pick(r, `{"metadata":{"annotations":{"endpoints.kubernetes.io/last-change-trigger-time":"never"}}}`,
			`{"metadata":{"annotations":{"mine":"yes"}}}`))
	case 5:
		return slicePatched(i, pick(r, `{"metadata":{"finalizers":["parity.example/stay"]}}`, `{"metadata":{"finalizers":null}}`))
	case 6:
		return sliceDeleted(i)
	default:
		return created("endpointslices", p.foreignSlice(name))
	}
}

// foreignSlice draws a slice that a user creates for a Service, with or without claiming to be its controller.
func (p *servicePlan) foreignSlice(service string) *discoveryv1.EndpointSlice {
	r := p.r
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("foreign-%d", r.IntN(1000)),
			Labels: map[string]string{discoveryv1.LabelServiceName: service, pinned: p.kind},
		},
		AddressType: pick(r, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN),
	}
	if managedBy := pick(r, "endpointslice-controller.k8s.io", "endpointslice-controller.k8s.io", "me", ""); managedBy != "" {
		s.Labels[discoveryv1.LabelManagedBy] = managedBy
	}
	if s.AddressType == discoveryv1.AddressTypeIPv4 && chance(r, 2) {
		s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.77.251.1"}}}
	}
	return s
}

// slices returns the slices in an order that is the same in both worlds, but for those that are alike.
func (s *subject) slices(ctx context.Context) ([]discoveryv1.EndpointSlice, error) {
	list, err := s.client.DiscoveryV1().EndpointSlices(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	rank := func(s *discoveryv1.EndpointSlice) string {
		name := s.Name
		if s.GenerateName != "" {
			name = s.GenerateName
		}
		var pods []string
		for _, e := range s.Endpoints {
			if e.TargetRef != nil {
				pods = append(pods, e.TargetRef.Name)
			}
		}
		slices.Sort(pods)
		return fmt.Sprint(name, s.AddressType, pods)
	}
	slices.SortFunc(list.Items, func(a, b discoveryv1.EndpointSlice) int { return cmp.Compare(rank(&a), rank(&b)) })
	return list.Items, nil
}

// onSlice is the step that does something to slice number i in the order of subject.slices, or to the last one.
func onSlice(i int, text string, do func(ctx context.Context, s *subject, name string) error) step {
	return step{text: fmt.Sprintf("slice %d: %s", i, text), do: func(ctx context.Context, s *subject) error {
		list, err := s.slices(ctx)
		if err != nil || len(list) == 0 {
			return err
		}
		return do(ctx, s, list[min(i, len(list)-1)].Name)
	}}
}

func slicePatched(i int, patch string) step {
	return onSlice(i, "patch "+patch, func(ctx context.Context, s *subject, name string) error {
		return s.patch(ctx, "endpointslices", name, patch)
	})
}

func sliceDeleted(i int) step {
	return onSlice(i, "delete", func(ctx context.Context, s *subject, name string) error {
		return s.delete(ctx, "endpointslices", name, "")
	})
}

// normalizeSlice sorts endpoints and ports, and leaves out the nodes that the scheduler has chosen, and other chance.
func normalizeSlice(obj *unstructured.Unstructured, names *aliases) {
	kind := obj.GetLabels()[pinned]
	endpoints, _ := obj.Object["endpoints"].([]any)
	for _, e := range endpoints {
		e, ok := e.(map[string]any)
		if !ok {
			continue
		}
		if kind == "" && e["nodeName"] != nil {
			e["nodeName"] = "<node>"
			delete(e, "zone")
			delete(e, "hints")
		}
		if kind == spread && e["hints"] != nil {
			e["hints"] = "<hints>"
		}
	}
	byText(endpoints, names)
	ports, _ := obj.Object["ports"].([]any)
	byText(ports, names)
	if kind != timed {
		withoutTriggerTime(obj)
	}
}

func withoutTriggerTime(obj *unstructured.Unstructured) {
	notes := obj.GetAnnotations()
	delete(notes, corev1.EndpointsLastChangeTriggerTime)
	obj.SetAnnotations(notes)
	if len(notes) == 0 {
		unstructured.RemoveNestedField(obj.Object, "metadata", "annotations")
	}
}

// merged leaves out and puts together slices that are a matter of chance or of a deliberate difference.
func (w *world) merged(list []*unstructured.Unstructured, names *aliases) []*unstructured.Unstructured {
	if w.name == string(cluster.Upstream) {
		list = withoutEmpty(list)
	}
	return pooled(list, names)
}

// pooled puts the endpoints of the controller's slices that differ in their endpoints alone into one: which of them an
// endpoint is in is a matter of chance, and so how many are left in each of them later, and which of them end up empty.
func pooled(list []*unstructured.Unstructured, names *aliases) (out []*unstructured.Unstructured) {
	groups := map[string][]*unstructured.Unstructured{}
	for _, u := range list {
		if u.GetGenerateName() == "" {
			out = append(out, u)
			continue
		}
		key := groupOf(u, names)
		groups[key] = append(groups[key], u)
	}
	for _, group := range groups {
		if len(group) == 1 {
			out = append(out, group[0])
			continue
		}
		all := group[0].DeepCopy()
		var endpoints []any
		for _, u := range group {
			list, _ := u.Object["endpoints"].([]any)
			endpoints = append(endpoints, list...)
		}
		all.Object["endpoints"] = endpoints
		withoutTriggerTime(all)
		out = append(out, all.DeepCopy())
	}
	return out
}

// withoutEmpty leaves out the empty slices of Services that have others of the same family; upstream leaves them: see the
// README's differences, EndpointSlices.
func withoutEmpty(list []*unstructured.Unstructured) []*unstructured.Unstructured {
	placeOf := func(u *unstructured.Unstructured) string {
		return fmt.Sprint(u.GetNamespace(), u.GetLabels()[discoveryv1.LabelServiceName], u.Object["addressType"])
	}
	size := func(u *unstructured.Unstructured, field string) int {
		list, _ := u.Object[field].([]any)
		return len(list)
	}
	full := map[string]bool{}
	for _, u := range list {
		if u.GetGenerateName() != "" && size(u, "endpoints") > 0 {
			full[placeOf(u)] = true
		}
	}
	return slices.DeleteFunc(list, func(u *unstructured.Unstructured) bool {
		return u.GetGenerateName() != "" && size(u, "endpoints")+size(u, "ports") == 0 && full[placeOf(u)]
	})
}

func groupOf(u *unstructured.Unstructured, names *aliases) string {
	ports, _ := u.Object["ports"].([]any)
	ports = slices.Clone(ports)
	byText(ports, names)
	text, err := json.Marshal([]any{u.GetNamespace(), u.GetGenerateName(), u.GetLabels(), u.GetOwnerReferences(), u.GetDeletionTimestamp() != nil, u.Object["addressType"], ports})
	if err != nil {
		panic(err) // it came as JSON
	}
	return string(text)
}
