package endpointslice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"orrery/controllers/endpointslice/layout"
	"orrery/controllers/internal/roster"
	"orrery/kit"
	"orrery/kit/client"
)

type reconciler struct {
	client       *client.Client
	recorder     record.EventRecorder
	maxEndpoints int

	service func(kit.Key) (*corev1.Service, bool)
	slices  func(service kit.Key) []*discoveryv1.EndpointSlice
	node    func(name string) (*corev1.Node, bool)

	roster   *roster.Roster
	zones    *zones
	waiting  *waiting
	triggers *triggers
	metrics  *metrics
}

// Reconcile brings the slices of one Service in line with the pods that it selects.
func (r *reconciler) Reconcile(ctx context.Context, key kit.Key) (kit.Result, error) {
	err := r.sync(ctx, key)
	r.metrics.synced(err)
	return kit.Done, kit.RetryFrom(firstRetry, err)
}

func (r *reconciler) sync(ctx context.Context, key kit.Key) error {
	svc, ok := r.service(key)
	if !ok {
		r.forget(key)
		return nil
	}
	if !selects(svc) {
		r.roster.Forget(key)
		r.waiting.set(key, nil)
		return nil
	}
	pods := r.roster.Select(selection(svc))
	byFamily := groupByFamily(svc, r.slices(key))
	at := r.triggers.observe(svc, pods)

	var errs []error
	families := layout.Families(svc)
	for _, family := range families {
		errs = append(errs, r.layOut(ctx, svc, pods, family, byFamily[family], at))
		delete(byFamily, family)
	}
	for family, unwanted := range byFamily {
		r.zones.drop(key, family)
		errs = append(errs, r.remove(ctx, svc, unwanted))
	}
	r.metrics.keep(key, families)
	err := errors.Join(errs...)
	r.report(svc, err)
	return err
}

// groupByFamily groups the slices that are not being deleted by address family. If the Service is being deleted, it leaves
// out those that do not belong to it: the garbage collector has orphaned them, as somebody requested, and they are to stay.
func groupByFamily(svc *corev1.Service, all []*discoveryv1.EndpointSlice) map[discoveryv1.AddressType][]*discoveryv1.EndpointSlice {
	out := make(map[discoveryv1.AddressType][]*discoveryv1.EndpointSlice, 2)
	for _, s := range all {
		if s.DeletionTimestamp == nil && (svc.DeletionTimestamp == nil || layout.OwnedBy(s, svc)) {
			out[s.AddressType] = append(out[s.AddressType], s)
		}
	}
	return out
}

// layOut brings the slices of one family in line with the pods.
func (r *reconciler) layOut(ctx context.Context, svc *corev1.Service, pods []*corev1.Pod, family discoveryv1.AddressType, have []*discoveryv1.EndpointSlice, at time.Time) error {
	plan := layout.Pack(layout.Input{
		Service: svc, Family: family, Pods: pods, Existing: have, Zone: r.zoneOf, Max: r.maxEndpoints,
	})
	r.hint(ctx, svc, family, plan)
	plan.Reuse()
	r.metrics.planned(svc, family, plan)
	return errors.Join(r.awaitNodes(ctx, svc, plan.MissingNode), r.apply(ctx, svc, plan, at))
}

// awaitNodes makes the Service wait for the missing nodes of pods, and returns an error for each pod. The pods are sorted by
// name, so that every retry reports the same message.
func (r *reconciler) awaitNodes(ctx context.Context, svc *corev1.Service, pods []*corev1.Pod) error {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	var nodes []string
	var errs []error
	for _, pod := range pods {
		if pod.Spec.NodeName != "" { // otherwise there is no node to wait for
			nodes = append(nodes, pod.Spec.NodeName)
		}
		errs = append(errs, fmt.Errorf("skipping Pod %s for Service %s: Node %s Not Found", pod.Name, klog.KObj(svc), pod.Spec.NodeName))
		klog.FromContext(ctx).V(2).Info("Leaving a pod out of the slices: its node does not exist",
			"pod", klog.KObj(pod), "service", klog.KObj(svc), "node", klog.KRef("", pod.Spec.NodeName))
	}
	slices.Sort(nodes)
	r.waiting.set(kit.KeyOf(svc), slices.Compact(nodes))
	return errors.Join(errs...)
}

func (r *reconciler) zoneOf(node string) (zone string, known bool) {
	n, ok := r.node(node)
	if !ok {
		return "", false
	}
	return n.Labels[corev1.LabelTopologyZone], true
}

// report publishes an event about errors. Conflicts, and errors because the namespace is terminating, are not worth an
// event, but must not hide other errors.
func (r *reconciler) report(svc *corev1.Service, err error) {
	if err == nil {
		return
	}
	failures := slices.DeleteFunc(flatten(err), func(e error) bool { return apierrors.IsConflict(e) || client.IsNamespaceTerminating(e) })
	if len(failures) == 0 {
		return
	}
	r.recorder.Eventf(svc, corev1.EventTypeWarning, "FailedToUpdateEndpointSlices",
		"Error updating Endpoint Slices for Service %s: %v", klog.KObj(svc), utilerrors.NewAggregate(failures))
}

// flatten returns the single errors of a joined one, so that an event lists each once and all on one line.
func flatten(err error) []error {
	many, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range many.Unwrap() {
		out = append(out, flatten(e)...)
	}
	return out
}

// forget drops all state of a deleted Service. Its slices are left to the garbage collector.
func (r *reconciler) forget(key kit.Key) {
	r.roster.Forget(key)
	r.waiting.set(key, nil)
	r.triggers.forget(key)
	r.zones.forget(key)
	r.metrics.forget(key)
}
