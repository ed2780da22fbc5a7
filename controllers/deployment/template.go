package deployment

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
)

// hashLabel distinguishes the pods of different templates.
const hashLabel = appsv1.DefaultDeploymentUniqueLabelKey

// sameTemplate reports whether two templates make the same pods. The hash label is ignored: a Deployment's own template has
// none, and the hash that an older version computed for the same template may differ. The fields that differ most often
// are compared first, because a Deployment is compared with its whole history at every change.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	if !sameImages(a.Spec.Containers, b.Spec.Containers) || !sameLabels(a.Labels, b.Labels) {
		return false
	}
	metaA, metaB := a.ObjectMeta, b.ObjectMeta
	metaA.Labels, metaB.Labels = nil, nil
	return apiequality.Semantic.DeepEqual(&metaA, &metaB) && apiequality.Semantic.DeepEqual(&a.Spec, &b.Spec)
}

func sameImages(a, b []corev1.Container) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Image != b[i].Image || a[i].Name != b[i].Name {
			return false
		}
	}
	return true
}

// sameLabels compares labels, ignoring the hash label.
func sameLabels(a, b map[string]string) bool {
	count := func(m map[string]string) int {
		if _, ok := m[hashLabel]; ok {
			return len(m) - 1
		}
		return len(m)
	}
	if count(a) != count(b) {
		return false
	}
	for k, v := range a {
		if k == hashLabel {
			continue
		}
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// setName returns the name of the ReplicaSet for a template's hash: the Deployment's name, truncated if necessary, a dash
// and the hash. If the truncated name ended in a dot, the server would reject the result.
func setName(deployment, hash string) string {
	if room := validation.DNS1123SubdomainMaxLength - len("-") - len(hash); len(deployment) > room {
		deployment = strings.TrimRight(deployment[:room], ".")
	}
	return deployment + "-" + hash
}
