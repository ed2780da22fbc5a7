package replicas

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"orrery/controllers/internal/podctl"
	"orrery/kit/client"
)

// statusOf returns the status that the object should have. scaling is the error from creating or deleting pods.
func (r *reconciler[T, P]) statusOf(set P, spec Spec, pods observed, scaling error, now time.Time) appsv1.ReplicaSetStatus {
	status := r.kind.Status(set)
	status.Conditions = withFailure(status.Conditions, failureOf(len(pods.active), int(spec.Replicas), scaling, now))
	count(&status, spec, pods.active, now)
	status.TerminatingReplicas = nil
	if r.kind.Terminating {
		status.TerminatingReplicas = new(int32(pods.terminating))
	}
	status.ObservedGeneration = set.GetGeneration()
	return status
}

// count fills in the numbers of pods.
func count(status *appsv1.ReplicaSetStatus, spec Spec, pods []*corev1.Pod, now time.Time) {
	status.Replicas = int32(len(pods))
	status.FullyLabeledReplicas, status.ReadyReplicas, status.AvailableReplicas = 0, 0, 0
	for _, pod := range pods {
		if hasLabels(pod.Labels, spec.Template.Labels) {
			status.FullyLabeledReplicas++
		}
		if podctl.Ready(pod) {
			status.ReadyReplicas++
			if podctl.Available(pod, spec.MinReadySeconds, now) {
				status.AvailableReplicas++
			}
		}
	}
}

func hasLabels(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// failureOf returns the ReplicaFailure condition for an error from creating or deleting pods, or nil if there was none.
func failureOf(have, need int, scaling error, now time.Time) *appsv1.ReplicaSetCondition {
	if scaling == nil {
		return nil
	}
	c := &appsv1.ReplicaSetCondition{
		Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(now), Message: scaling.Error(),
	}
	switch {
	case have < need:
		c.Reason = podctl.ReasonCreateFailed
	case have > need:
		c.Reason = podctl.ReasonDeleteFailed
	}
	return c
}

// withFailure returns the conditions with the ReplicaFailure condition, or without one if failure is nil. The first failure
// stays until scaling works again: rewriting it at each retry would wake everything that watches the object.
func withFailure(conditions []appsv1.ReplicaSetCondition, failure *appsv1.ReplicaSetCondition) []appsv1.ReplicaSetCondition {
	at := slices.IndexFunc(conditions, func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure })
	switch {
	case failure != nil && at < 0:
		return append(slices.Clip(conditions), *failure)
	case failure == nil && at >= 0:
		return slices.Delete(slices.Clone(conditions), at, at+1)
	}
	return conditions
}

// report writes the status unless the object has it.
func (r *reconciler[T, P]) report(ctx context.Context, set P, spec Spec, status appsv1.ReplicaSetStatus) error {
	old := r.kind.Status(set)
	if sameStatus(old, status) {
		return nil
	}
	klog.FromContext(ctx).V(4).Info("Updating status", "object", klog.KObj(set), "need", spec.Replicas,
		"replicas", change(old.Replicas, status.Replicas),
		"fullyLabeledReplicas", change(old.FullyLabeledReplicas, status.FullyLabeledReplicas),
		"readyReplicas", change(old.ReadyReplicas, status.ReadyReplicas),
		"availableReplicas", change(old.AvailableReplicas, status.AvailableReplicas),
		"observedGeneration", status.ObservedGeneration)
	_, err := client.UpdateStatus[T, P](ctx, r.client, r.kind.WithStatus(set, status), client.Brief)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("update status of %s: %w", klog.KObj(set), err)
	}
	return nil
}

// change is a number before and after. It is only formatted if the log line is written.
func change(old, new int32) fmt.Stringer { return step{old, new} }

type step struct{ old, new int32 }

// String implements fmt.Stringer.
func (s step) String() string { return fmt.Sprintf("%d->%d", s.old, s.new) }

func sameStatus(a, b appsv1.ReplicaSetStatus) bool {
	return a.Replicas == b.Replicas && a.FullyLabeledReplicas == b.FullyLabeledReplicas &&
		a.ReadyReplicas == b.ReadyReplicas && a.AvailableReplicas == b.AvailableReplicas &&
		a.ObservedGeneration == b.ObservedGeneration && ptr.Equal(a.TerminatingReplicas, b.TerminatingReplicas) &&
		slices.Equal(a.Conditions, b.Conditions)
}
