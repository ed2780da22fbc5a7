package deployment

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/internal/claim"
	"orrery/controllers/internal/index"
	"orrery/kit"
	"orrery/kit/cache"
)

// bySelector indexes Deployments by a label that their selector requires.
func bySelector() cache.Index[*appsv1.Deployment] {
	return cache.Index[*appsv1.Deployment]{Name: "selector", Keys: func(d *appsv1.Deployment) []string {
		return index.SelectorKeys(d.Namespace, d.Spec.Selector)
	}}
}

// watches maps changes of other objects to the Deployments to reconcile.
type watches struct {
	deployments cache.Store[*appsv1.Deployment]
	sets        cache.Store[*appsv1.ReplicaSet]
	pods        cache.Store[*corev1.Pod]
}

// adopters returns the Deployments that may adopt a ReplicaSet which was created without a controller, lost its
// controller, or had its labels changed while it had none.
func (w *watches) adopters(old, new *appsv1.ReplicaSet) []kit.Key {
	if !claim.Orphaned(old, new) {
		return nil
	}
	var keys []kit.Key
	selector := func(d *appsv1.Deployment) *metav1.LabelSelector { return d.Spec.Selector }
	for _, d := range index.Matching(w.deployments, bySelector(), selector, new.Namespace, new.Labels) {
		keys = append(keys, kit.KeyOf(d))
	}
	return keys
}

// emptied returns the Deployment of a ReplicaSet whose last pod has ended, if its strategy is Recreate: it waits for that.
// The status of the ReplicaSet, through which other changes of pods reach a Deployment, does not count terminating pods.
func (w *watches) emptied(old, new *corev1.Pod) []kit.Key {
	if old == nil || new != nil && (mayRun(new) || !mayRun(old)) {
		return nil
	}
	ref := metav1.GetControllerOfNoCopy(old)
	if ref == nil || ref.Kind != "ReplicaSet" {
		return nil
	}
	rs, ok := w.sets.Get(kit.Key{Namespace: old.Namespace, Name: ref.Name})
	if !ok || rs.UID != ref.UID {
		return nil
	}
	owner := metav1.GetControllerOfNoCopy(rs)
	if owner == nil || owner.Kind != ownerKind.Kind {
		return nil
	}
	d, ok := w.deployments.Get(kit.Key{Namespace: rs.Namespace, Name: owner.Name})
	if !ok || d.UID != owner.UID || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return nil
	}
	if anyMayRun(index.Owned(w.pods, index.ByController[*corev1.Pod](), rs)) {
		return nil
	}
	return []kit.Key{kit.KeyOf(d)}
}
