package nodepool

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"orrery/api/nodes/v1alpha1"
	"orrery/kit"
	"orrery/kit/client"
)

// classState is the state of a pool's RuntimeClass.
type classState struct {
	name   string // of the RuntimeClass that the pool owns now
	taken  string // the desired name, if another RuntimeClass has it that the pool does not own
	failed string // why it could not be written
}

// condition returns the condition of a pool's RuntimeClass; nil if it has none.
func (s classState) condition(k *known) *metav1.Condition {
	const kind = v1alpha1.ConditionRuntimeClassReady
	var c metav1.Condition
	switch {
	case k.problem != nil && s.name != "":
		c = condition(kind, false, reasonInvalid, fmt.Sprintf("RuntimeClass %s is left as it is, as the pool cannot be worked with: %v", s.name, k.problem))
	case k.api.Spec.RuntimeClass == nil:
		return nil
	case k.problem != nil:
		c = condition(kind, false, reasonInvalid, k.problem.Error())
	case len(k.api.Selector().MatchExpressions) > 0:
		c = condition(kind, false, reasonInvalid, "a RuntimeClass selects nodes by equal labels only: use matchLabels in spec.nodeSelector")
	case s.taken != "":
		c = condition(kind, false, "NameInUse", fmt.Sprintf("RuntimeClass %s exists and is not this pool's; delete it, or give spec.runtimeClass another name", s.taken))
	case s.failed != "":
		c = condition(kind, false, reasonFailed, s.failed)
	default:
		c = condition(kind, true, "Created", fmt.Sprintf("RuntimeClass %s selects the nodes of the pool", s.name))
	}
	return &c
}

// reconcileClass creates or updates the RuntimeClass of a pool, and deletes those that the pool owns under other names. A
// RuntimeClass that the pool does not own is never touched; neither is that of an invalid pool.
func (r *reconciler) reconcileClass(ctx context.Context, k *known) (classState, error) {
	var s classState
	if k.problem != nil {
		for _, rc := range r.classes.List("") {
			if metav1.IsControlledBy(rc, k.api) {
				s.name = rc.Name
			}
		}
		return s, nil
	}
	want := k.class()
	keep := ""
	if want != nil {
		keep = want.Name
	}
	if err := r.deleteClass(ctx, k, keep); err != nil || want == nil {
		return s, err
	}
	have, ok := r.classes.Get(kit.KeyOf(want))
	switch {
	case !ok:
		_, err := client.Create(ctx, r.client, want)
		if apierrors.IsAlreadyExists(err) {
			s.taken = want.Name // provisional; the cache will show who owns it
			return s, nil
		}
		if err != nil {
			return s, fmt.Errorf("create RuntimeClass %s: %w", want.Name, err)
		}
		klog.FromContext(ctx).Info("Created the RuntimeClass of a NodePool", "nodePool", k.api.Name, "runtimeClass", want.Name)
	case !metav1.IsControlledBy(have, k.api):
		s.taken = want.Name
		return s, nil
	case have.Handler != want.Handler: // it cannot be changed
		if err := r.deleteClass(ctx, k, ""); err != nil {
			return s, err
		}
		if _, err := client.Create(ctx, r.client, want); err != nil {
			return s, fmt.Errorf("create RuntimeClass %s again: %w", want.Name, err)
		}
	case !equality.Semantic.DeepEqual(have.Scheduling, want.Scheduling) || !equality.Semantic.DeepEqual(have.Overhead, want.Overhead):
		next := have.DeepCopy()
		next.Scheduling, next.Overhead = want.Scheduling, want.Overhead
		if _, err := client.Update(ctx, r.client, next); err != nil {
			return s, fmt.Errorf("update RuntimeClass %s: %w", want.Name, err)
		}
		klog.FromContext(ctx).Info("Updated the RuntimeClass of a NodePool", "nodePool", k.api.Name, "runtimeClass", want.Name)
	}
	s.name = want.Name
	return s, nil
}

// deleteClass deletes the RuntimeClasses that a pool owns, except the one with a given name.
func (r *reconciler) deleteClass(ctx context.Context, k *known, but string) error {
	for _, rc := range r.classes.List("") {
		if rc.Name == but || rc.DeletionTimestamp != nil || !metav1.IsControlledBy(rc, k.api) {
			continue
		}
		if err := client.Delete(ctx, r.client, rc, client.IfUID(rc.UID)); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete RuntimeClass %s: %w", rc.Name, err)
		}
		klog.FromContext(ctx).Info("Deleted the RuntimeClass of a NodePool", "nodePool", k.api.Name, "runtimeClass", rc.Name)
	}
	return nil
}

// class returns the RuntimeClass that a pool specifies: its pods are scheduled to the pool's nodes and tolerate their taints.
// It is nil if the pool has none, or if the pool's selector uses more than matchLabels, which a RuntimeClass cannot express.
func (k *known) class() *nodev1.RuntimeClass {
	spec, selector := k.api.Spec.RuntimeClass, k.api.Selector()
	if spec == nil || len(selector.MatchExpressions) > 0 {
		return nil
	}
	out := &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:            k.api.RuntimeClassName(),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(k.api, v1alpha1.NodePoolKind)},
		},
		Handler:    spec.Handler,
		Scheduling: &nodev1.Scheduling{NodeSelector: selector.MatchLabels},
	}
	for _, t := range k.api.Spec.Taints {
		tolerated := corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpEqual, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
		out.Scheduling.Tolerations = append(out.Scheduling.Tolerations, tolerated)
	}
	slices.SortFunc(out.Scheduling.Tolerations, func(a, b corev1.Toleration) int { return compareTolerations(a, b) })
	if len(spec.Overhead) > 0 {
		out.Overhead = &nodev1.Overhead{PodFixed: corev1.ResourceList{}}
		for name, q := range spec.Overhead {
			out.Overhead.PodFixed[corev1.ResourceName(name)] = q.DeepCopy()
		}
	}
	return out
}
