package index

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodsOfJobsAreFiledUntilTheyAreCounted(t *testing.T) {
	yes := true
	tracked := []string{"other", batchv1.JobTrackingFinalizer}
	for name, c := range map[string]struct {
		kind       string
		phase      corev1.PodPhase
		finalizers []string
		filed      bool
	}{
		"running":               {"Job", corev1.PodRunning, tracked, true},
		"running and released":  {"Job", corev1.PodRunning, nil, true},
		"pending":               {"Job", corev1.PodPending, tracked, true},
		"succeeded":             {"Job", corev1.PodSucceeded, tracked, true},
		"failed":                {"Job", corev1.PodFailed, tracked, true},
		"succeeded and counted": {"Job", corev1.PodSucceeded, nil, false},
		"failed and counted":    {"Job", corev1.PodFailed, []string{"other"}, false},
		"of another kind":       {"ReplicaSet", corev1.PodRunning, tracked, false},
		"of nobody":             {"", corev1.PodRunning, tracked, false},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Finalizers: c.finalizers}, Status: corev1.PodStatus{Phase: c.phase}}
		if c.kind != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", UID: "not"}, {Kind: c.kind, UID: "u", Controller: &yes}}
		}
		if got := UnsettledPodsByJob().Keys(p); slices.Equal(got, []string{"u"}) != c.filed || len(got) > 1 {
			t.Errorf("%s: filed under %v, want it filed: %t", name, got, c.filed)
		}
	}
}
