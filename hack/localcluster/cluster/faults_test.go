package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOnlyPodsThatWaitForTheirKubeletAreWoken(t *testing.T) {
	now, yes := metav1.Now(), true
	job := []metav1.OwnerReference{{Kind: "Job", Controller: &yes}}
	set := []metav1.OwnerReference{{Kind: "ReplicaSet", Controller: &yes}}
	for name, test := range map[string]struct {
		node    string
		phase   corev1.PodPhase
		deleted *metav1.Time
		owners  []metav1.OwnerReference
		want    bool
	}{
		"not bound":             {"", corev1.PodPending, nil, nil, false},
		"to be started":         {"n", corev1.PodPending, nil, nil, true},
		"running":               {"n", corev1.PodRunning, nil, set, false},
		"running, of a job":     {"n", corev1.PodRunning, nil, job, true},
		"completed":             {"n", corev1.PodSucceeded, nil, job, false},
		"deleted":               {"n", corev1.PodRunning, &now, set, true},
		"deleted, never placed": {"", corev1.PodPending, &now, set, false},
	} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: test.deleted, OwnerReferences: test.owners},
			Spec:       corev1.PodSpec{NodeName: test.node},
			Status:     corev1.PodStatus{Phase: test.phase},
		}
		if got := waitsForKubelet(pod); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
