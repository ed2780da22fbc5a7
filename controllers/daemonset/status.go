package daemonset

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/podctl"
	"orrery/kit/client"
)

// status returns the status that the DaemonSet should have. Of several pods on a node only the first by precedence counts,
// which during a surge is the old one.
func (v *view) status() appsv1.DaemonSetStatus {
	s := v.set.Status
	s.ObservedGeneration = v.set.Generation
	s.DesiredNumberScheduled = int32(v.desired)
	s.CurrentNumberScheduled, s.NumberMisscheduled = 0, 0
	s.NumberReady, s.NumberAvailable, s.UpdatedNumberScheduled = 0, 0, 0
	for i := range v.nodes {
		at := &v.nodes[i]
		pod := at.first()
		switch {
		case pod == nil, at.gone:
		case !at.run:
			s.NumberMisscheduled++
		default:
			s.CurrentNumberScheduled++
			if podctl.Ready(pod) {
				s.NumberReady++
				if v.available(pod) {
					s.NumberAvailable++
				}
			}
			if v.current.matches(pod) {
				s.UpdatedNumberScheduled++
			}
		}
	}
	s.NumberUnavailable = s.DesiredNumberScheduled - s.NumberAvailable
	return s
}

// report writes the status if it differs from the stored one.
func (r *reconciler) report(ctx context.Context, v *view) error {
	old, now := v.set.Status, v.status()
	if sameStatus(old, now) {
		return nil
	}
	klog.FromContext(ctx).V(4).Info("Updating status", "daemonSet", klog.KObj(v.set), "desired", now.DesiredNumberScheduled,
		"current", now.CurrentNumberScheduled, "ready", now.NumberReady, "updated", now.UpdatedNumberScheduled)
	next := &appsv1.DaemonSet{ObjectMeta: v.set.ObjectMeta, Status: now}
	if _, err := client.UpdateStatus(ctx, r.client, next, client.Brief); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("update status of %s: %w", klog.KObj(v.set), err)
	}
	return nil
}

// sameStatus compares the fields that status sets.
func sameStatus(a, b appsv1.DaemonSetStatus) bool {
	return a.DesiredNumberScheduled == b.DesiredNumberScheduled && a.CurrentNumberScheduled == b.CurrentNumberScheduled &&
		a.NumberMisscheduled == b.NumberMisscheduled && a.NumberReady == b.NumberReady &&
		a.UpdatedNumberScheduled == b.UpdatedNumberScheduled && a.NumberAvailable == b.NumberAvailable &&
		a.NumberUnavailable == b.NumberUnavailable && a.ObservedGeneration >= b.ObservedGeneration
}
