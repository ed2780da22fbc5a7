package podgc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery/controllers/internal/index"
	"orrery/kit"
	"orrery/kit/client"
)

// removal is a pod to remove, the reason, and the condition that reports the reason to the pod's owner.
type removal struct {
	pod       *corev1.Pod
	reason    string
	condition *corev1.PodCondition
}

// excess finds the finished pods above the threshold: evicted ones first, then the oldest.
func (r *reconciler) excess(context.Context, time.Time) ([]removal, error) {
	if r.threshold <= 0 || r.pods.Count(index.PodsByEnd(), index.Terminal) <= r.threshold {
		return nil, nil
	}
	pods := r.pods.By(index.PodsByEnd(), index.Terminal)
	return removals(oldestFirst(pods)[:max(0, len(pods)-r.threshold)], reasonTerminated, nil), nil
}

func oldestFirst(pods []*corev1.Pod) []*corev1.Pod {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		if x, y := evicted(a), evicted(b); x != y {
			if x {
				return -1
			}
			return 1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
	})
	return pods
}

func evicted(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed && p.Status.Reason == "Evicted"
}

// outOfService finds deleted pods on nodes that have the out-of-service taint and are not ready. As the cache may show a
// taint that has been removed, each such node is read from the server once.
func (r *reconciler) outOfService(ctx context.Context, _ time.Time) ([]removal, error) {
	dead := map[string]bool{}
	var due []*corev1.Pod
	var errs []error
	for _, p := range r.pods.By(index.PodsByEnd(), index.Terminating) {
		name := p.Spec.NodeName
		if name == "" {
			continue
		}
		isDead, known := dead[name]
		if !known {
			var err error
			isDead, err = r.isOutOfService(ctx, name)
			errs = append(errs, err)
			dead[name] = isDead
		}
		if isDead {
			due = append(due, p)
		}
	}
	return removals(oldestFirst(due), reasonOutOfService, nil), errors.Join(errs...)
}

func (r *reconciler) isOutOfService(ctx context.Context, name string) (bool, error) {
	cached, ok := r.nodes.Get(kit.Key{Name: name})
	if !ok || !outOfService(cached) {
		return false, nil
	}
	fresh, err := client.Get[corev1.Node](ctx, r.live, kit.Key{Name: name})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil // the node does not exist: orphaned handles its pods
	case err != nil:
		return false, fmt.Errorf("read node %s: %w", name, err)
	}
	return outOfService(fresh), nil
}

func outOfService(n *corev1.Node) bool {
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return !ready && slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// orphaned finds the pods of nodes that have been missing for the quarantine and that the server does not have either.
func (r *reconciler) orphaned(ctx context.Context, now time.Time) ([]removal, error) {
	var due []removal
	var errs []error
	for _, name := range r.quarantined(now) {
		_, err := client.Get[corev1.Node](ctx, r.live, kit.Key{Name: name})
		switch {
		case apierrors.IsNotFound(err):
			due = append(due, removals(r.pods.By(index.PodsByNode(), name), reasonOrphaned, &corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				Reason: "DeletionByPodGC", Message: "PodGC: node no longer exists",
			})...)
		case err != nil:
			errs = append(errs, fmt.Errorf("read node %s: %w", name, err))
		}
	}
	return due, errors.Join(errs...)
}

// quarantined updates the record of missing nodes and returns those that have been missing long enough.
func (r *reconciler) quarantined(now time.Time) []string {
	seen := map[string]bool{}
	var long []string
	for _, name := range r.pods.Values(index.PodsByNode()) {
		if _, ok := r.nodes.Get(kit.Key{Name: name}); ok {
			continue
		}
		seen[name] = true
		since, known := r.missing[name]
		if !known {
			r.missing[name] = now
		} else if isOver(since, now) {
			long = append(long, name)
		}
	}
	for name := range r.missing {
		if !seen[name] {
			delete(r.missing, name)
		}
	}
	slices.Sort(long)
	return long
}

// isOver reports whether the quarantine of a node that has been missing since then is over.
func isOver(since, now time.Time) bool { return now.Sub(since) >= quarantine-tolerance }

// neverScheduled finds deleted pods that were never bound to a node, so that no kubelet removes them.
func (r *reconciler) neverScheduled(context.Context, time.Time) ([]removal, error) {
	var due []*corev1.Pod
	for _, p := range r.pods.By(index.PodsByEnd(), index.Terminating) {
		if p.Spec.NodeName == "" {
			due = append(due, p)
		}
	}
	return removals(due, reasonUnscheduled, nil), nil
}

// removals leaves out pods that have been deleted with grace period 0 before: they exist only because of their finalizers,
// and deleting them again would have no effect.
func removals(pods []*corev1.Pod, reason string, condition *corev1.PodCondition) []removal {
	var out []removal
	for _, p := range pods {
		if p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0 && ended(p) {
			continue
		}
		out = append(out, removal{p, reason, condition})
	}
	return out
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}
