package deployment

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Reasons of the events about rollbacks.
const (
	reasonRolledBack        = "DeploymentRollback"
	reasonRevisionNotFound  = "DeploymentRollbackRevisionNotFound"
	reasonTemplateUnchanged = "DeploymentRollbackTemplateUnchanged"
)

// rollbackTo reads the annotation that replaced spec.rollbackTo of extensions/v1beta1: the revision to roll back to, 0 for
// the previous one. An invalid value is ignored.
func rollbackTo(d *appsv1.Deployment) (revision int64, ok bool) {
	revision, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedRollbackTo], 10, 64)
	return revision, err == nil
}

// rollback gives the Deployment the template of an earlier revision; the next reconcile starts the rollout. The annotation
// is removed even if the rollback turns out to be impossible.
func (r *reconciler) rollback(ctx context.Context, ro *rollout) error {
	if err := r.ensure(ctx, ro); err != nil || ro.current == nil {
		return err
	}
	d := ro.d.DeepCopy()
	delete(d.Annotations, appsv1.DeprecatedRollbackTo)
	d.Annotations[revisionAnnotation] = ro.revision
	kind, reason, message := applyRollback(d, ro)
	stored, err := r.api.update(ctx, d)
	if err != nil && kind == corev1.EventTypeNormal {
		return fmt.Errorf("roll back: %w", err)
	}
	r.recorder.Event(ro.d, kind, reason, message)
	if err != nil {
		return fmt.Errorf("clear the rollback annotation: %w", err)
	}
	ro.updated = stored
	return nil
}

// applyRollback changes d to the requested revision, and returns the event that reports the outcome.
func applyRollback(d *appsv1.Deployment, ro *rollout) (kind, reason, message string) {
	revision, _ := rollbackTo(ro.d)
	if revision == 0 {
		if _, revision = topRevisions(ro.all()); revision == 0 {
			return corev1.EventTypeWarning, reasonRevisionNotFound, "Unable to find last revision."
		}
	}
	i := slices.IndexFunc(ro.all(), func(rs *appsv1.ReplicaSet) bool {
		v, ok := revisionOf(rs)
		return ok && v == revision
	})
	if i < 0 {
		return corev1.EventTypeWarning, reasonRevisionNotFound, "Unable to find the revision to rollback to."
	}
	rs := ro.all()[i]
	if sameTemplate(&d.Spec.Template, &rs.Spec.Template) {
		return corev1.EventTypeWarning, reasonTemplateUnchanged,
			fmt.Sprintf("The rollback revision contains the same template as current deployment %q", d.Name)
	}
	template := rs.Spec.Template.DeepCopy()
	delete(template.Labels, hashLabel)
	d.Spec.Template = *template
	// Annotations such as the change cause belong to the revision too: they were copied to the ReplicaSet with it.
	maps.DeleteFunc(d.Annotations, func(k, _ string) bool { return !isOwn(k) })
	for k, v := range rs.Annotations {
		if !isOwn(k) {
			d.Annotations[k] = v
		}
	}
	return corev1.EventTypeNormal, reasonRolledBack, fmt.Sprintf("Rolled back deployment %q to revision %d", d.Name, revision)
}
