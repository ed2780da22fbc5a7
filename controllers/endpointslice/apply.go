package endpointslice

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/klog/v2"

	"orrery/controllers/endpointslice/layout"
	"orrery/kit"
	"orrery/kit/client"
)

// atOnce is the number of slices of one Service that are written at the same time.
const atOnce = 4

// apply carries out a plan: what is new first, so that an endpoint that moves is never missing.
func (r *reconciler) apply(ctx context.Context, svc *corev1.Service, plan *layout.Plan, at time.Time) error {
	if svc.DeletionTimestamp != nil {
		// The garbage collector deletes the slices, and would have to chase new ones.
		plan.Create = nil
	}
	if plan.Changes() == 0 {
		r.metrics.applied(svc, 0)
		return nil
	}
	err := kit.Batch(ctx, len(plan.Create), atOnce, func(ctx context.Context, i int) error {
		s := stamped(plan.Create[i], at)
		if _, err := client.Create(ctx, r.client, s, client.Brief); err != nil {
			return fmt.Errorf("failed to create EndpointSlice for Service %s: %w", klog.KObj(svc), err)
		}
		r.metrics.change("create")
		return nil
	})
	if err != nil {
		return err
	}
	err = kit.Batch(ctx, len(plan.Update), atOnce, func(ctx context.Context, i int) error {
		s := stamped(plan.Update[i], at)
		if _, err := client.Update(ctx, r.client, s, client.Brief); err != nil {
			return fmt.Errorf("failed to update %s EndpointSlice for Service %s: %w", s.Name, klog.KObj(svc), err)
		}
		r.metrics.change("update")
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.remove(ctx, svc, plan.Delete); err != nil {
		return err
	}
	r.metrics.applied(svc, plan.Changes())
	klog.FromContext(ctx).V(2).Info("Updated endpoint slices", "service", klog.KObj(svc),
		"created", len(plan.Create), "updated", len(plan.Update), "deleted", len(plan.Delete))
	return nil
}

// remove deletes slices that list nothing that the Service wants.
func (r *reconciler) remove(ctx context.Context, svc *corev1.Service, unwanted []*discoveryv1.EndpointSlice) error {
	return errors.Join(kit.Batch(ctx, len(unwanted), atOnce, func(ctx context.Context, i int) error {
		s := unwanted[i]
		err := client.IgnoreNotFound(client.Delete(ctx, r.client, s, client.IfUID(s.UID)))
		if err != nil {
			return fmt.Errorf("failed to delete %s EndpointSlice for Service %s: %w", s.Name, klog.KObj(svc), err)
		}
		r.metrics.change("delete")
		return nil
	}))
}

// stamped returns the slice with the time of the change that it follows, from which programs measure how long a change
// takes to reach the network; a change without a known time clears it. The slice belongs to the caller.
func stamped(s *discoveryv1.EndpointSlice, at time.Time) *discoveryv1.EndpointSlice {
	notes := maps.Clone(s.Annotations)
	delete(notes, corev1.EndpointsLastChangeTriggerTime)
	if !at.IsZero() {
		if notes == nil {
			notes = make(map[string]string, 1)
		}
		notes[corev1.EndpointsLastChangeTriggerTime] = at.UTC().Format(time.RFC3339Nano)
	}
	s.Annotations = notes
	return s
}
