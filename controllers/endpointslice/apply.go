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

// concurrentWrites is the number of slices of one Service that are written at the same time.
const concurrentWrites = 4

// apply carries out a plan: creates first, then updates, then deletes, so that an endpoint that moves from one slice to
// another is never missing from both.
func (r *reconciler) apply(ctx context.Context, svc *corev1.Service, plan *layout.Plan, at time.Time) error {
	if svc.DeletionTimestamp != nil {
		// The garbage collector is deleting the slices, and would have to delete new ones too.
		plan.Create = nil
	}
	if plan.Changes() == 0 {
		r.metrics.applied(svc, 0)
		return nil
	}
	err := kit.Batch(ctx, len(plan.Create), concurrentWrites, func(ctx context.Context, i int) error {
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
	err = kit.Batch(ctx, len(plan.Update), concurrentWrites, func(ctx context.Context, i int) error {
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

// remove deletes slices that the Service no longer needs.
func (r *reconciler) remove(ctx context.Context, svc *corev1.Service, unwanted []*discoveryv1.EndpointSlice) error {
	return errors.Join(kit.Batch(ctx, len(unwanted), concurrentWrites, func(ctx context.Context, i int) error {
		s := unwanted[i]
		err := client.IgnoreNotFound(client.Delete(ctx, r.client, s, client.IfUID(s.UID)))
		if err != nil {
			return fmt.Errorf("failed to delete %s EndpointSlice for Service %s: %w", s.Name, klog.KObj(svc), err)
		}
		r.metrics.change("delete")
		return nil
	}))
}

// stamped sets the annotation with the time of the change that triggered the write, from which consumers measure how long a
// change takes to reach the network; the zero time removes it. It changes the slice and returns it.
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
