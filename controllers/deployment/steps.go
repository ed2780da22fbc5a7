package deployment

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
)

// roll advances a rolling update by one step.
func (r *reconciler) roll(ctx context.Context, ro *rollout) error {
	if err := r.ensure(ctx, ro); err != nil || ro.current == nil {
		return err
	}
	plan := planRolling(ro.bounds, ro.current, ro.old)
	return r.finish(ctx, ro, plan)
}

// recreate scales the old ReplicaSets to 0, waits until none of their pods can still be running, and only then creates and
// scales up the new one.
func (r *reconciler) recreate(ctx context.Context, ro *rollout) error {
	if plan := planRecreate(ro.old); len(plan) > 0 {
		return r.finish(ctx, ro, plan)
	}
	if r.oldPodsMayRun(ro) {
		klog.FromContext(ctx).V(4).Info("Waiting for the old pods to end", "deployment", klog.KObj(ro.d))
		r.assess(ro)
		return nil
	}
	if err := r.ensure(ctx, ro); err != nil || ro.current == nil {
		return err
	}
	return r.finish(ctx, ro, whole(ro.bounds, ro.current))
}

// finish carries out the plan of a rollout. Old ReplicaSets are deleted only when there is nothing left to do and the
// stored status shows the rollout complete. The status is updated even if a ReplicaSet cannot be resized or deleted, which
// a policy may forbid: users must see how far the rollout got, and that it is stuck.
func (r *reconciler) finish(ctx context.Context, ro *rollout, plan []resize) error {
	err := r.resize(ctx, ro, plan)
	if len(plan) == 0 && isComplete(ro.d.Status, ro.d.Generation, ro.desired) {
		err = r.trim(ctx, ro)
	}
	if !apierrors.IsConflict(err) { // on a conflict what was read is out of date, and a retry follows soon
		r.assess(ro)
	}
	return err
}

// rescale applies a change of spec.replicas. It does not touch the Progressing condition.
func (r *reconciler) rescale(ctx context.Context, ro *rollout) error {
	rolling := ro.d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType
	err := r.resize(ctx, ro, planScale(ro.bounds, rolling, ro.current, ro.old, ro.d.Status.Replicas))
	if !apierrors.IsConflict(err) {
		r.count(ro)
	}
	return err
}

// hold handles a paused Deployment: its size still follows spec.replicas and, if mayTrim, its history the limit.
func (r *reconciler) hold(ctx context.Context, ro *rollout, mayTrim bool) error {
	if err := r.rescale(ctx, ro); err != nil || !mayTrim {
		return err
	}
	return r.trim(ctx, ro)
}

// resize carries out a plan in order: the current ReplicaSet grows before the old ones shrink. One that cannot be resized,
// as a policy forbids it, does not hold up the others. After a conflict, what was read is out of date.
func (r *reconciler) resize(ctx context.Context, ro *rollout, plan []resize) error {
	var failed error
	for _, p := range plan {
		from := size(p.set)
		notes, changed := sized(p.set.Annotations, ro.bounds)
		if from == p.to && !changed {
			continue
		}
		rs := p.set.DeepCopy()
		rs.Spec.Replicas, rs.Annotations = &p.to, notes
		stored, err := r.api.updateSet(ctx, rs)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("scale ReplicaSet %s from %d to %d: %w", klog.KObj(rs), from, p.to, err))
			if apierrors.IsConflict(err) {
				return failed
			}
			continue
		}
		ro.replace(stored)
		if from != p.to {
			r.reportScaled(ctx, ro, stored.Name, from, p.to)
		}
	}
	return failed
}

func (r *reconciler) reportScaled(ctx context.Context, ro *rollout, set string, from, to int32) {
	direction := "up"
	if to < from {
		direction = "down"
	}
	r.recorder.Eventf(ro.d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled %s replica set %s from %d to %d", direction, set, from, to)
	klog.FromContext(ctx).V(2).Info("Scaled a ReplicaSet", "deployment", klog.KObj(ro.d), "replicaSet", set, "from", from, "to", to)
}

// oldPodsMayRun reports whether a pod of an old ReplicaSet may still be running: one that its status counts, one that is
// not counted because it is terminating, or one that was created before the ReplicaSet's controller saw its last change.
func (r *reconciler) oldPodsMayRun(ro *rollout) bool {
	for _, rs := range ro.old {
		if rs.Status.ObservedGeneration < rs.Generation || rs.Status.Replicas > 0 || anyMayRun(r.api.podsOf(rs)) {
			return true
		}
	}
	return false
}

func anyMayRun(pods []*corev1.Pod) bool {
	for _, p := range pods {
		if mayRun(p) {
			return true
		}
	}
	return false
}

// mayRun reports whether a pod may still be running: it has not ended. One in the phase Unknown may be running too.
func mayRun(p *corev1.Pod) bool {
	return p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded
}
