package main

import (
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// replicationControllerProgram plays with a ReplicationController, whose selector and labels may be left to the server.
func replicationControllerProgram(r *rand.Rand) program {
	selector := pick(r, nil, nil, map[string]string{"app": "web"}, map[string]string{"app": "web"})
	labels := pick(r, nil, map[string]string{"app": "web"})
	seconds := int32(pick(r, 0, 0, 0, 2))
	// Unlike that of a ReplicaSet, the selector can change.
	edits := []string{
		`{"spec":{"selector":{"app":"other"}}}`,
		`{"spec":{"selector":{"app":"web","tier":null}}}`,
		`{"spec":{"selector":{"app":null,"tier":"a"}}}`,
		`{"spec":{"selector":{"tier":"b"},"template":{"metadata":{"labels":{"tier":"b"}}}}}`,
		`{"spec":{"selector":{"app":"other","tier":null},"template":{"metadata":{"labels":{"app":"other"}}}}}`,
		`{"spec":{"selector":null}}`,
	}
	return (&replicated{r: r, resource: "replicationcontrollers", edits: edits, object: func(name string, replicas int32, template corev1.PodTemplateSpec) runtime.Object {
		return &corev1.ReplicationController{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Spec:       corev1.ReplicationControllerSpec{Replicas: &replicas, MinReadySeconds: seconds, Selector: selector, Template: &template},
		}
	}}).program()
}
