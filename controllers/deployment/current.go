package deployment

import (
	"context"
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/podctl"
	"orrery/kit"
	"orrery/kit/client"
)

// refresh brings what a Deployment passes on to its current ReplicaSet, if there is one, up to date.
func (r *reconciler) refresh(ctx context.Context, ro *rollout) error {
	if ro.current == nil {
		return nil
	}
	notes, changed := annotated(ro.current.Annotations, ro.d.Annotations, ro.nextRevision())
	if changed || ro.current.Spec.MinReadySeconds != ro.d.Spec.MinReadySeconds {
		rs := ro.current.DeepCopy()
		rs.Annotations, rs.Spec.MinReadySeconds = notes, ro.d.Spec.MinReadySeconds
		stored, err := r.api.updateSet(ctx, rs)
		if err != nil {
			return fmt.Errorf("update ReplicaSet %s: %w", klog.KObj(rs), err)
		}
		ro.replace(stored)
	}
	ro.revision = ro.current.Annotations[revisionAnnotation]
	// Whoever sets a deadline for a Deployment that had none starts it now.
	if findCondition(ro.status.Conditions, appsv1.DeploymentProgressing) == nil {
		ro.progressing(corev1.ConditionTrue, reasonFound, fmt.Sprintf("Found new replica set %q", ro.current.Name))
	}
	return nil
}

// ensure makes the ReplicaSet of the template if there is none. It leaves ro.current empty, without an error, if the
// name was taken by another and the next try will use a different one.
func (r *reconciler) ensure(ctx context.Context, ro *rollout) error {
	if ro.current != nil {
		return nil
	}
	rs := newSet(ro)
	created, err := r.api.createSet(ctx, rs)
	switch {
	case err == nil:
	case apierrors.IsAlreadyExists(err):
		return r.collide(ctx, ro, rs, err)
	case client.NamespaceGoing(err):
		return fmt.Errorf("create ReplicaSet %s: %w", klog.KObj(rs), err)
	default:
		msg := fmt.Sprintf("Failed to create new replica set %q: %v", rs.Name, err)
		r.count(ro)
		ro.progressing(corev1.ConditionFalse, reasonCreateError, msg)
		r.recorder.Event(ro.d, corev1.EventTypeWarning, reasonCreateError, msg)
		return fmt.Errorf("create ReplicaSet %s: %w", klog.KObj(rs), err)
	}
	ro.current = created
	ro.revision = created.Annotations[revisionAnnotation]
	ro.progressing(corev1.ConditionTrue, reasonCreated, fmt.Sprintf("Created new replica set %q", created.Name))
	klog.FromContext(ctx).V(2).Info("Created a ReplicaSet", "deployment", klog.KObj(ro.d), "replicaSet", created.Name, "revision", ro.revision)
	if n := size(created); n > 0 {
		r.tellScaled(ctx, ro, created.Name, 0, n)
	}
	return nil
}

// collide handles a ReplicaSet that has the name of the one to be made. It may be that very one, which the cache does
// not show yet. If not, the collision is counted, which changes the next name; the change of status brings the
// Deployment back.
func (r *reconciler) collide(ctx context.Context, ro *rollout, wanted *appsv1.ReplicaSet, taken error) error {
	rs, err := r.api.liveSet(ctx, kit.KeyOf(wanted))
	if err != nil {
		return fmt.Errorf("read ReplicaSet %s, whose name is taken (%w): %w", klog.KObj(wanted), taken, err)
	}
	if metav1.IsControlledBy(rs, ro.d) && sameTemplate(&rs.Spec.Template, &ro.d.Spec.Template) {
		ro.current = rs
		return r.refresh(ctx, ro)
	}
	var collisions int32
	if n := ro.status.CollisionCount; n != nil {
		collisions = *n
	}
	if wait := pause(collisions) - ro.now.Sub(rs.CreationTimestamp.Time); wait > 0 && metav1.IsControlledBy(rs, ro.d) {
		klog.FromContext(ctx).Info("ReplicaSets come out with another template than they were made with: making fewer",
			"deployment", klog.KObj(ro.d), "replicaSet", rs.Name, "collisions", collisions, "next", wait)
		r.assess(ro)
		ro.check = wait
		return nil
	}
	collisions++
	ro.status.CollisionCount = &collisions
	klog.FromContext(ctx).V(2).Info("The name of a new ReplicaSet is taken; trying another", "deployment", klog.KObj(ro.d),
		"replicaSet", rs.Name, "collisions", collisions)
	return nil
}

// pause is the time to leave between the making of two ReplicaSets of one template that both come out with another one,
// as where a webhook changes them. Each would be followed by one more, under one more name, without an end.
func pause(collisions int32) time.Duration {
	const free, most = 3, time.Minute
	if collisions < free {
		return 0
	}
	return min(time.Second<<min(collisions-free, 10), most)
}

// newSet returns the ReplicaSet that a Deployment's template asks for, as large as there is room for.
func newSet(ro *rollout) *appsv1.ReplicaSet {
	d := ro.d
	hash := podctl.TemplateHash(&d.Spec.Template, ro.status.CollisionCount)
	template, selector := d.Spec.Template.DeepCopy(), d.Spec.Selector.DeepCopy()
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	template.Labels[hashLabel] = hash
	metav1.AddLabelToSelector(selector, hashLabel, hash)
	notes, _ := annotated(nil, d.Annotations, ro.nextRevision())
	notes, _ = sized(notes, ro.bounds)
	replicas := ro.desired
	if d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		replicas = grow(ro.bounds, 0, sum(ro.old, size))
	}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: setName(d.Name, hash),
			Labels: maps.Clone(template.Labels), Annotations: notes,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, ownerKind)},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas, MinReadySeconds: d.Spec.MinReadySeconds, Selector: selector, Template: *template,
		},
	}
}

// nextRevision is the one after that of every old ReplicaSet.
func (ro *rollout) nextRevision() int64 {
	last, _ := topRevisions(ro.old)
	return last + 1
}

// progressing sets the Progressing condition, if anybody wants to know of progress.
func (ro *rollout) progressing(status corev1.ConditionStatus, reason, message string) {
	if _, ok := deadline(ro.d); ok {
		ro.status.Conditions = withCondition(ro.status.Conditions, condition(appsv1.DeploymentProgressing, status, reason, message, ro.now))
	}
}
