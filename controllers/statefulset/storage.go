package statefulset

import (
	"iter"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// claimTemplates returns the templates of a set's claims. The server accepts several of the same name; the last one counts.
func claimTemplates(set *appsv1.StatefulSet) iter.Seq[*corev1.PersistentVolumeClaim] {
	return func(yield func(*corev1.PersistentVolumeClaim) bool) {
		all := set.Spec.VolumeClaimTemplates
		for i := range all {
			again := slices.ContainsFunc(all[i+1:], func(t corev1.PersistentVolumeClaim) bool { return t.Name == all[i].Name })
			if !again && !yield(&all[i]) {
				return
			}
		}
	}
}

// claimVolumes returns the volumes of a pod that stand for the set's claims, in the order of the templates.
func claimVolumes(set *appsv1.StatefulSet, ordinal int) []corev1.Volume {
	var volumes []corev1.Volume
	for template := range claimTemplates(set) {
		volumes = append(volumes, corev1.Volume{Name: template.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(template.Name, set.Name, ordinal)},
		}})
	}
	return volumes
}

// withoutClaims returns the volumes of a pod template except those that a claim of the set replaces. The slice is reused.
func withoutClaims(set *appsv1.StatefulSet, volumes []corev1.Volume) []corev1.Volume {
	return slices.DeleteFunc(volumes, func(v corev1.Volume) bool { return hasTemplate(set, v.Name) })
}

func hasTemplate(set *appsv1.StatefulSet, name string) bool {
	return slices.ContainsFunc(set.Spec.VolumeClaimTemplates, func(t corev1.PersistentVolumeClaim) bool { return t.Name == name })
}

// stored reports whether a pod uses the claims that the set has for it.
func stored(set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) bool {
	for i := range set.Spec.VolumeClaimTemplates {
		name := set.Spec.VolumeClaimTemplates[i].Name
		at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
		if at < 0 {
			return false
		}
		source := pod.Spec.Volumes[at].PersistentVolumeClaim
		if source == nil || source.ClaimName != claimName(name, set.Name, ordinal) {
			return false
		}
	}
	return true
}

// newClaim returns the claim of an ordinal for one of the set's templates. Its labels are a copy, as several claims are
// encoded at once. If claims are to be deleted with their set, the set owns them from the start, unless the template names
// another controller, as those of some operators do.
func newClaim(set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim, ordinal int) *corev1.PersistentVolumeClaim {
	claim := template.DeepCopy()
	claim.Namespace, claim.Name = set.Namespace, claimName(template.Name, set.Name, ordinal)
	if claim.Labels == nil {
		claim.Labels = map[string]string{}
	}
	maps.Copy(claim.Labels, set.Spec.Selector.MatchLabels)
	owner, pod := holder{setKind, set.Name, set.UID}, holder{kind: podKind, name: podName(set.Name, ordinal)}
	if r := rule(owner, pod, policyOf(set), false, claim.OwnerReferences); r.change {
		claim.OwnerReferences = r.owners
	}
	return claim
}
