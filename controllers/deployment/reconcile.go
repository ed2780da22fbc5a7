package deployment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"orrery/kit"
	"orrery/kit/client"
)

type reconciler struct {
	api             api
	recorder        record.EventRecorder
	withTerminating bool // report status.terminatingReplicas
}

// rollout is the state of one reconcile: what was read, and what is to be written.
type rollout struct {
	bounds
	d       *appsv1.Deployment // from the cache: read-only
	now     time.Time
	current *appsv1.ReplicaSet   // has the Deployment's template; nil if there is none yet
	old     []*appsv1.ReplicaSet // the others, oldest first

	status   appsv1.DeploymentStatus // to be written
	revision string                  // to be written; empty leaves the stored one
	updated  *appsv1.Deployment      // d as stored by a rollback; nil without one
	check    time.Duration           // when to check the deadline again; 0 for never
}

// Reconcile advances the rollout of a Deployment by one step.
func (r *reconciler) Reconcile(ctx context.Context, d *appsv1.Deployment) (kit.Result, error) {
	if s := d.Spec.Selector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return kit.Done, r.refuse(ctx, d)
	}
	ro, err := r.observe(ctx, d, time.Now())
	if err != nil {
		return kit.Done, err
	}
	err = r.step(ctx, ro)
	// The status is written even if the step failed.
	return kit.After(ro.check), errors.Join(err, r.record(ctx, ro))
}

// observe reads the state of a Deployment. ReplicaSets that have just been adopted are included right away: if admission
// strips the owner reference again, the adoption changes nothing, and no event would requeue the Deployment.
func (r *reconciler) observe(ctx context.Context, d *appsv1.Deployment, now time.Time) (*rollout, error) {
	b, err := boundsOf(&d.Spec)
	if err != nil {
		return nil, kit.Terminal(err)
	}
	sets, err := r.api.claimed(ctx, d)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(sets, byAge)
	ro := &rollout{bounds: b, d: d, now: now, old: sets, status: d.Status}
	if i := findCurrent(d, sets); i >= 0 {
		ro.current = sets[i]
		ro.old = slices.Delete(sets, i, i+1)
	}
	return ro, nil
}

// step decides which kind of step is due.
func (r *reconciler) step(ctx context.Context, ro *rollout) error {
	if ro.d.DeletionTimestamp != nil {
		err := r.refresh(ctx, ro)
		r.count(ro)
		return err
	}
	ro.status.Conditions = paused(ro.d, ro.status.Conditions, ro.now)
	if err := r.refresh(ctx, ro); err != nil {
		if !apierrors.IsConflict(err) {
			r.count(ro)
		}
		return err
	}
	_, wantsRollback := rollbackTo(ro.d)
	switch kind := ro.d.Spec.Strategy.Type; {
	case ro.d.Spec.Paused:
		return r.hold(ctx, ro, !wantsRollback)
	case wantsRollback:
		return r.rollback(ctx, ro)
	case isScaled(ro.bounds, ro.all()):
		return r.rescale(ctx, ro)
	case kind == appsv1.RecreateDeploymentStrategyType:
		return r.recreate(ctx, ro)
	case kind == appsv1.RollingUpdateDeploymentStrategyType:
		return r.roll(ctx, ro)
	default:
		return kit.Terminal(fmt.Errorf("unknown strategy %q", kind))
	}
}

// refuse handles a Deployment whose selector matches every pod: it is reported and otherwise left alone.
func (r *reconciler) refuse(ctx context.Context, d *appsv1.Deployment) error {
	r.recorder.Event(d, corev1.EventTypeWarning, "SelectingAll",
		"This deployment is selecting all pods. A non-empty selector is required.")
	ro := &rollout{d: d, status: d.Status}
	ro.status.ObservedGeneration = max(d.Status.ObservedGeneration, d.Generation)
	return r.record(ctx, ro)
}

// record writes the status and the revision if they differ from the stored ones.
func (r *reconciler) record(ctx context.Context, ro *rollout) error {
	stored := ro.d
	if ro.updated != nil {
		stored = ro.updated
	}
	sameRevision := ro.revision == "" || stored.Annotations[revisionAnnotation] == ro.revision
	if sameRevision && apiequality.Semantic.DeepEqual(&stored.Status, &ro.status) {
		return nil
	}
	d := &appsv1.Deployment{ObjectMeta: stored.ObjectMeta, Status: ro.status}
	if !sameRevision {
		d.Annotations = maps.Clone(d.Annotations)
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, revisionAnnotation, ro.revision)
	}
	if _, err := r.api.updateStatus(ctx, d); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("update status: %w", err)
	}
	return nil
}

// count brings the numbers in the status, and the Available condition, up to date.
func (r *reconciler) count(ro *rollout) {
	ro.status = counted(ro.status, ro.d.Generation, ro.bounds, ro.current, ro.all(), r.withTerminating, ro.now)
}

// assess brings the whole status up to date, progress included.
func (r *reconciler) assess(ro *rollout) {
	r.count(ro)
	ro.status.Conditions, ro.check = progressed(ro.d, ro.status, ro.desired, ro.current, ro.now)
	ro.status.Conditions = withFailure(ro.status.Conditions, ro.current, ro.all())
}

// all returns the ReplicaSets, the current one last.
func (ro *rollout) all() []*appsv1.ReplicaSet {
	if ro.current == nil {
		return ro.old
	}
	return append(slices.Clip(ro.old), ro.current)
}

// replace replaces a ReplicaSet with its stored version after a write.
func (ro *rollout) replace(rs *appsv1.ReplicaSet) {
	if ro.current != nil && ro.current.UID == rs.UID {
		ro.current = rs
	}
	for i := range ro.old {
		if ro.old[i].UID == rs.UID {
			ro.old[i] = rs
		}
	}
}
