package statefulset

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/internal/podctl"
)

// setKind and podKind are the kinds as owner references name them.
var (
	setKind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	podKind = corev1.SchemeGroupVersion.WithKind("Pod")
)

func podName(set string, ordinal int) string { return set + "-" + strconv.Itoa(ordinal) }

// claimName returns the name of a claim. Volume provisioners parse it to spread the volumes of a set over zones, so its
// form is fixed.
func claimName(template, set string, ordinal int) string {
	return template + "-" + podName(set, ordinal)
}

// lastOrdinal is the highest ordinal that a pod may have. A set may ask for higher ones, as the start and the number of
// replicas are each of 32 bits, but other programs do not recognise names with such ordinals.
const lastOrdinal = math.MaxInt32

// checkOrdinal returns an error if no pod may have an ordinal.
func checkOrdinal(ordinal int) error {
	if ordinal > lastOrdinal {
		return fmt.Errorf("ordinal %d is beyond %d, the last one", ordinal, lastOrdinal)
	}
	return nil
}

// parent splits a name, as podName and claimName make it, into that of the owner and an ordinal. ok is false if the end of
// the name is no ordinal: it must have no leading zeros and not exceed lastOrdinal.
func parent(name string) (owner string, ordinal int, ok bool) {
	at := strings.LastIndexByte(name, '-')
	if at < 0 {
		return "", 0, false
	}
	digits := name[at+1:]
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || n > lastOrdinal || digits[0] == '0' && len(digits) > 1 {
		return "", 0, false
	}
	return name[:at], int(n), true
}

// memberOf reports whether a pod has a name that the set gives, and the ordinal in it.
func memberOf(set *appsv1.StatefulSet, pod *corev1.Pod) (ordinal int, ok bool) {
	owner, ordinal, ok := parent(pod.Name)
	return ordinal, ok && owner == set.Name
}

// identified reports whether a pod has the label that its service and others find it by.
func identified(pod *corev1.Pod) bool { return pod.Labels[appsv1.StatefulSetPodNameLabel] == pod.Name }

// identityLabels are those that tell one pod of a set from another.
func identityLabels(set string, ordinal int) map[string]string {
	return map[string]string{
		appsv1.StatefulSetPodNameLabel: podName(set, ordinal),
		appsv1.PodIndexLabel:           strconv.Itoa(ordinal),
	}
}

// newPod returns the pod of an ordinal, made from a template that belongs to the revision of that name.
func newPod(set *appsv1.StatefulSet, template *corev1.PodTemplateSpec, revision string, ordinal int) *corev1.Pod {
	pod := podctl.FromTemplate(template, set, *metav1.NewControllerRef(set, setKind))
	pod.Name = podName(set.Name, ordinal)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	for key, value := range identityLabels(set.Name, ordinal) {
		pod.Labels[key] = value
	}
	pod.Labels[appsv1.StatefulSetRevisionLabel] = revision
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, set.Spec.ServiceName
	pod.Spec.Volumes = append(claimVolumes(set, ordinal), withoutClaims(set, pod.Spec.Volumes)...)
	return pod
}

// revisionOf returns the name of the revision that a pod was made from.
func revisionOf(pod *corev1.Pod) string { return pod.Labels[appsv1.StatefulSetRevisionLabel] }
