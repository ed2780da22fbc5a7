package replicationcontroller

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/internal/replicas"
)

// replicationControllers describes ReplicationControllers to the engine. Their status has no field for terminating pods.
func replicationControllers() replicas.Kind[*corev1.ReplicationController] {
	return replicas.Kind[*corev1.ReplicationController]{
		GVK:    corev1.SchemeGroupVersion.WithKind("ReplicationController"),
		Spec:   specOf,
		Status: statusOf,
		WithStatus: func(rc *corev1.ReplicationController, status appsv1.ReplicaSetStatus) *corev1.ReplicationController {
			return &corev1.ReplicationController{ObjectMeta: rc.ObjectMeta, Status: statusFrom(status)}
		},
	}
}

func specOf(rc *corev1.ReplicationController) replicas.Spec {
	s := replicas.Spec{
		Replicas: 1, MinReadySeconds: rc.Spec.MinReadySeconds,
		Selector: &metav1.LabelSelector{MatchLabels: rc.Spec.Selector}, Template: rc.Spec.Template,
	}
	if rc.Spec.Replicas != nil {
		s.Replicas = *rc.Spec.Replicas
	}
	return s
}

func statusOf(rc *corev1.ReplicationController) appsv1.ReplicaSetStatus {
	s := appsv1.ReplicaSetStatus{
		Replicas: rc.Status.Replicas, FullyLabeledReplicas: rc.Status.FullyLabeledReplicas,
		ReadyReplicas: rc.Status.ReadyReplicas, AvailableReplicas: rc.Status.AvailableReplicas,
		ObservedGeneration: rc.Status.ObservedGeneration,
	}
	for _, c := range rc.Status.Conditions {
		s.Conditions = append(s.Conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	return s
}

func statusFrom(s appsv1.ReplicaSetStatus) corev1.ReplicationControllerStatus {
	out := corev1.ReplicationControllerStatus{
		Replicas: s.Replicas, FullyLabeledReplicas: s.FullyLabeledReplicas,
		ReadyReplicas: s.ReadyReplicas, AvailableReplicas: s.AvailableReplicas,
		ObservedGeneration: s.ObservedGeneration,
	}
	for _, c := range s.Conditions {
		out.Conditions = append(out.Conditions, corev1.ReplicationControllerCondition{
			Type: corev1.ReplicationControllerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	return out
}
