package podctl

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FromTemplate returns a new pod of the owner's namespace with the template's labels, annotations, finalizers and spec
// and the owner as its controller. It shares nothing with the template: the caller may change it. The server makes its
// name from that of the owner.
func FromTemplate(template *corev1.PodTemplateSpec, owner metav1.Object, ref metav1.OwnerReference) *corev1.Pod {
	pod := Share(template, owner, ref)
	pod.Labels = maps.Clone(pod.Labels)
	pod.Annotations = maps.Clone(pod.Annotations)
	pod.Finalizers = slices.Clone(pod.Finalizers)
	template.Spec.DeepCopyInto(&pod.Spec)
	return pod
}

// Share is FromTemplate without the copy, for pods that are sent as they are: maps, slices and pointers of the result
// belong to the template and must not be changed. Fields of the pod itself may be set.
func Share(template *corev1.PodTemplateSpec, owner metav1.Object, ref metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       owner.GetNamespace(),
			GenerateName:    NamePrefix(owner.GetName()),
			Labels:          template.Labels,
			Annotations:     template.Annotations,
			Finalizers:      template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{ref},
		},
		Spec: template.Spec,
	}
}

// NamePrefix returns the generateName of an owner's pods: its name and a dash, or the name alone where the dash would
// make it too long for a pod name.
func NamePrefix(owner string) string {
	prefix := owner + "-"
	if len(apivalidation.NameIsDNSSubdomain(prefix, true)) > 0 {
		return owner
	}
	return prefix
}
