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

// refresh brings the fields that the current ReplicaSet takes from its Deployment up to date, if there is a current one.
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
	// Without the condition, a progress deadline that was added later would never start to run.
	if findCondition(ro.status.Conditions, appsv1.DeploymentProgressing) == nil {
		ro.progressing(corev1.ConditionTrue, reasonFound, fmt.Sprintf("Found new replica set %q", ro.current.Name))
	}
	return nil
}

// ensure creates the current ReplicaSet if there is none. If its name is taken by another one it leaves ro.current nil,
// without an error: the next reconcile tries a different name.
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
	case client.IsNamespaceTerminating(err):
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
		r.reportScaled(ctx, ro, created.Name, 0, n)
	}
	return nil
}

// collide handles the case that a ReplicaSet with the wanted name exists. It may be the wanted one itself, which the cache
// does not show yet. If it is not, the collision is counted, which changes the name; the change of status requeues the
// Deployment.
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
	if wait := collisionBackoff(collisions) - ro.now.Sub(rs.CreationTimestamp.Time); wait > 0 && metav1.IsControlledBy(rs, ro.d) {
		klog.FromContext(ctx).Info("The template of each new ReplicaSet is changed on creation; backing off",
			"deployment", klog.KObj(ro.d), "replicaSet", rs.Name, "collisions", collisions, "retryAfter", wait)
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

// collisionBackoff is the time to leave between the creation of two ReplicaSets whose template is changed on creation, by
// a webhook for example. As such a ReplicaSet never matches the Deployment, another one, under another name, would be
// created at every reconcile.
func collisionBackoff(collisions int32) time.Duration {
	const free, most = 3, time.Minute
	if collisions < free {
		return 0
	}
	return min(time.Second<<min(collisions-free, 10), most)
}

// newSet returns a ReplicaSet for the Deployment's template, as large as the bounds allow beside the old ones.
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

// nextRevision is one more than the highest revision of the old ReplicaSets.
func (ro *rollout) nextRevision() int64 {
	last, _ := topRevisions(ro.old)
	return last + 1
}

// progressing sets the Progressing condition, if the Deployment has a progress deadline.
func (ro *rollout) progressing(status corev1.ConditionStatus, reason, message string) {
	if _, ok := deadline(ro.d); ok {
		ro.status.Conditions = withCondition(ro.status.Conditions, condition(appsv1.DeploymentProgressing, status, reason, message, ro.now))
	}
}
