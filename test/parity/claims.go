package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// addClaims gives a set claim templates. Nobody provides volumes, so the scheduler would not bind its pods: they are bound
// by their template.
func addClaims(r *rand.Rand, set *appsv1.StatefulSet) {
	set.Spec.Template.Spec.NodeName = "node-1"
	for _, name := range []string{"data", "logs"}[:1+r.IntN(2)] {
		c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: claimSpec()}
		if chance(r, 4) {
			c.Labels = map[string]string{"tier": "gold", "app": "other"}
		}
		set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, c)
	}
	spec := &set.Spec.Template.Spec
	if chance(r, 4) { // replaced by the claim
		spec.Volumes = []corev1.Volume{{Name: "tmp"}, {Name: "data"}}
		spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "tmp", MountPath: "/tmp"}}
	}
	if chance(r, 10) { // the last one counts
		c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"last": "1"}}, Spec: claimSpec()}
		set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, c)
	}
	if chance(r, 4) {
		return
	}
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: drawRetention(r), WhenScaled: drawRetention(r)}
}

func claimSpec() corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
}

func drawRetention(r *rand.Rand) appsv1.PersistentVolumeClaimRetentionPolicyType {
	return pick(r, appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
}

// mayWait reports whether claims of a set may be gone only after a while. With several claims, upstream gives those that are
// there no owner before the pod is there; see the README, "claims that are to be deleted with their StatefulSet".
func mayWait(set *appsv1.StatefulSet) bool {
	return !eager(set) && len(set.Spec.VolumeClaimTemplates) == 1
}

// hanging is the step that deletes a claim, which does not go.
func hanging(claim string) step {
	return step{text: "delete " + claim + ", which hangs", do: func(ctx context.Context, s *subject) error {
		if err := s.patch(ctx, "persistentvolumeclaims", claim, `{"metadata":{"annotations":{"parity/acts":"hang"}}}`); err != nil {
			return err
		}
		return s.delete(ctx, "persistentvolumeclaims", claim, "")
	}}
}

// claimStep is what a user may do to claims.
func claimStep(r *rand.Rand, set *appsv1.StatefulSet) step {
	claim := fmt.Sprintf("%s-db-%d", pick(r, "data", "logs"), r.IntN(4))
	switch r.IntN(7) {
	case 0, 1:
		return patched("statefulsets", "db", `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"%s","whenScaled":"%s"}}}`, drawRetention(r), drawRetention(r))
	case 2:
		if mayWait(set) {
			return hanging(claim)
		}
		fallthrough
	case 3:
		return touched("statefulsets", "db", "delete "+claim, func(ctx context.Context, s *subject) error {
			return s.delete(ctx, "persistentvolumeclaims", claim, "")
		})
	case 4:
		return touched("statefulsets", "db", "remove the owners of "+claim, func(ctx context.Context, s *subject) error {
			return s.patch(ctx, "persistentvolumeclaims", claim, `{"metadata":{"ownerReferences":null}}`)
		})
	case 5:
		controls := chance(r, 2)
		return touched("statefulsets", "db", fmt.Sprintf("a ConfigMap owns %s, controller=%v", claim, controls), func(ctx context.Context, s *subject) error {
			return s.own(ctx, "persistentvolumeclaims", claim, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "kube-root-ca.crt", Controller: &controls}, "configmaps")
		})
	default:
		controls := chance(r, 2)
		return touched("statefulsets", "db", fmt.Sprintf("the set owns %s, controller=%v", claim, controls), func(ctx context.Context, s *subject) error {
			return s.own(ctx, "persistentvolumeclaims", claim, metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", Controller: &controls}, "statefulsets")
		})
	}
}
